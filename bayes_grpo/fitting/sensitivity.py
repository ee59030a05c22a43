"""How much a posterior moves with its prior and with its likelihood: power scaling.

Prior (or likelihood) is raised to powers near 1, the draws are reweighted, and the distance between the two posteriors
of a quantity is measured (Kallioinen et al. 2024, https://doi.org/10.1007/s11222-023-10366-5). The numbers are those of
``arviz.psense_summary`` on the fit's data, on arrays, so that a summary does not wait for the import of all of ArviZ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.pareto import smoothed_weights
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.convergence import ess_tail

ALPHAS = (0.99, 1.01)
"""Powers to which prior and likelihood are raised."""
THRESHOLD = 0.05
"""Sensitivity from which a posterior depends on a part."""
CONFLICT, STRONG_PRIOR, FINE = "potential prior-data conflict", "potential strong prior / weak likelihood", "✓"
"""ArviZ's words: both parts move the posterior; the prior alone does; the prior does not."""


class Sensitivity(NamedTuple):
    """Power-scaling sensitivity of one quantity.

    Attributes:
        prior: To the prior of all parameters; NaN where the quantity has draws that are not finite.
        likelihood: To the likelihood of all rows.
        diagnosis: ArviZ's words; "" where the numbers are NaN.
    """

    prior: float
    likelihood: float
    diagnosis: str


def sensitivities(fit: Fit) -> dict[str, Sensitivity]:
    """Sensitivity of every parameter and derived quantity of a fit, in the order of the posterior."""
    prior, likelihood = (_weights(_total(fit, group)) for group in ("joint_log_prior", "joint_log_likelihood"))
    out = {}
    for name in fit.data["posterior"].dataset.data_vars:
        draws = fit.draws(str(name))
        out[str(name)] = _diagnosed(_sense(draws, prior), _sense(draws, likelihood))
    return out


def _total(fit: Fit, group: str) -> np.ndarray:
    """Sum of a group's variables at every draw, shape (chains, draws)."""
    return np.sum([x.to_numpy() for x in fit.data[group].dataset.data_vars.values()], axis=0)


def _weights(log_density: np.ndarray) -> list[np.ndarray]:
    """Smoothed weights of the draws for each power, normalized, shape (draws,)."""
    # All chains in a row as one, as ArviZ takes them.
    efficiency = ess_tail(log_density.reshape(1, -1), 0.05, 0.95) / log_density.size
    return [smoothed_weights((alpha - 1.0) * log_density.ravel(), efficiency)[0] for alpha in ALPHAS]


def _sense(draws: np.ndarray, weights: list[np.ndarray]) -> float:
    """Second derivative of the distance in the power's logarithm, by its values on both sides."""
    if not np.isfinite(draws).all() or np.ptp(draws) == 0:
        return math.nan
    flat = draws.ravel()
    distances = [max(_distance(flat, weight), _distance(-flat, weight)) for weight in weights]
    return float(np.mean([d / abs(math.log2(alpha)) for d, alpha in zip(distances, ALPHAS, strict=True)]))


def _distance(draws: np.ndarray, weight: np.ndarray) -> float:
    """Cumulative Jensen-Shannon distance between draws and the same draws weighted.

    Nguyen and Vreeken 2015, https://doi.org/10.1007/978-3-319-23525-7_11.
    """
    order = np.argsort(draws)
    n, width = len(draws), np.diff(draws[order])
    plain = np.linspace(1.0 / n, 1.0 - 1.0 / n, n - 1)
    weighted = np.cumsum(weight[order] / weight.sum())[:-1]
    middle = _log2(0.5 * (plain + weighted))
    areas = plain @ width, weighted @ width
    gap = 0.5 / math.log(2.0) * (areas[1] - areas[0])
    one = width @ (plain * (_log2(plain) - middle)) + gap
    other = width @ (weighted * (_log2(weighted) - middle)) - gap
    return math.sqrt((max(0.0, one) + max(0.0, other)) / sum(areas))


def _log2(x: np.ndarray) -> np.ndarray:
    return np.log2(x, out=np.zeros_like(x), where=x != 0)


def _diagnosed(prior: float, likelihood: float) -> Sensitivity:
    word = FINE
    if math.isnan(prior):
        word = ""
    elif prior >= THRESHOLD and likelihood >= THRESHOLD:
        word = CONFLICT
    elif prior > THRESHOLD > likelihood:
        word = STRONG_PRIOR
    return Sensitivity(prior, likelihood, word)
