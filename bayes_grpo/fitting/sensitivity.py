"""How much a posterior moves with its prior and with its likelihood: power scaling.

Prior (or likelihood) is raised to powers near 1, the draws are reweighted, and the distance between the two posteriors
of a quantity is measured (Kallioinen et al. 2024, https://doi.org/10.1007/s11222-023-10366-5). The numbers are those of
``arviz.psense_summary`` on the fit's data, on arrays, so that a summary does not wait for the import of all of ArviZ.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.fitting.result import Fit

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
    """Sensitivity of every parameter and derived quantity of a fit.

    Args:
        fit: The fit.

    Returns:
        Name → sensitivity, in the order of the posterior.
    """
    prior, likelihood = (_weights(_total(fit, group)) for group in ("log_prior", "log_likelihood"))
    out = {}
    for name in fit.data["posterior"].dataset.data_vars:
        draws = fit.draws(str(name))
        out[str(name)] = _diagnosed(_sense(draws, prior), _sense(draws, likelihood))
    return out


def _total(fit: Fit, group: str) -> np.ndarray:
    """Sum of a group's variables at every draw, shape (chains, draws)."""
    return np.sum([x.to_numpy() for x in fit.data[group].dataset.data_vars.values()], axis=0)


def _weights(log_density: np.ndarray) -> list[np.ndarray]:
    """Smoothed weights of the draws for each power, normalised."""
    from arviz_stats.base.array import array_stats  # seconds of import, unless a sampler has run

    stats: Any = array_stats
    out = []
    for alpha in ALPHAS:
        weight = np.exp(stats.power_scale_lw(log_density, alpha=alpha, axis=(-2, -1)))
        out.append(weight / weight.sum())
    return out


def _sense(draws: np.ndarray, weights: list[np.ndarray]) -> float:
    from arviz_stats.base.array import array_stats

    stats: Any = array_stats
    if not np.isfinite(draws).all() or np.ptp(draws) == 0:
        return math.nan
    return float(stats.power_scale_sense(draws, *weights, *ALPHAS))


def _diagnosed(prior: float, likelihood: float) -> Sensitivity:
    word = FINE
    if math.isnan(prior):
        word = ""
    elif prior >= THRESHOLD and likelihood >= THRESHOLD:
        word = CONFLICT
    elif prior > THRESHOLD > likelihood:
        word = STRONG_PRIOR
    return Sensitivity(prior, likelihood, word)
