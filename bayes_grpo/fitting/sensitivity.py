"""How much of each quantity the log tells: the variance that it removes, and power scaling.

How much a posterior moves with its prior and its likelihood is measured by power scaling: either is raised to powers
near 1, the draws are reweighted, and the distance between the two posteriors of a quantity is measured (Kallioinen et
al. 2024, https://doi.org/10.1007/s11222-023-10366-5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.sampling import smoothed_weights
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.chain_checks import tail_size
from bayes_grpo.regimes.base import Parameter

CONTRACTION_LIMIT = 0.5
"""Below this share of prior variance removed, a posterior is called mostly prior."""
# Power scaling says more than contraction: a fixed point whose prior variance is gone by 97% can have an interval that
# grows fourfold with a prior twice as wide. Both are shown, because what is mostly prior has not been learned at all.
ALPHAS = (0.99, 1.01)
"""Powers to which prior and likelihood are raised."""
THRESHOLD = 0.05
"""Sensitivity from which a posterior depends on a part."""


@dataclass(frozen=True)
class SummaryRow:
    """One line of the table.

    Attributes:
        name: Parameter or derived quantity.
        unit: Its unit.
        meaning: What it is, in a clause.
        posterior: Median and interval.
        prior: Median and interval of the prior.
        contraction: Share of the prior variance that the data removed, 1 = all, on the scale on which the prior is
            normal (for derived quantities: of their ranks under the prior); can be slightly negative.
        mostly_prior: Whether the log says little about it.
        prior_sensitivity: How much it moves where all priors are power-scaled; above 0.05 it depends on them. NaN
            where it has draws that are not finite.
        likelihood_sensitivity: The same for the likelihood; below 0.05 the log says little.
    """

    name: str
    unit: str
    meaning: str
    posterior: Interval
    prior: Interval
    contraction: float
    mostly_prior: bool
    prior_sensitivity: float
    likelihood_sensitivity: float

    @property
    def fixed(self) -> bool:
        """True if a point prior or the settings leave it one value."""
        return self.prior.high - self.prior.low <= 1e-9 * abs(self.prior.median)

    @property
    def rests_on_prior(self) -> bool:
        """True if it is mostly the prior: little of its variance is gone, or the prior moves it more than the log."""
        stronger = self.prior_sensitivity > self.likelihood_sensitivity
        return self.mostly_prior or (self.prior_sensitivity >= THRESHOLD and stronger)

    @property
    def moves_with_prior(self) -> bool:
        """True where the log informs it, and yet another prior would give another interval."""
        return not self.mostly_prior and self.prior_sensitivity >= THRESHOLD


def summary_rows(fit: Fit) -> list[SummaryRow]:
    """The table of a fit: a row for each parameter and derived quantity, in the order of the posterior."""
    prior = fit.groups["prior"]
    out, sensitivity = [], sensitivities(fit)
    for name, draws in fit.quantities.items():
        unit, meaning = fit.regime.described(name)
        share = contraction(fit, name)
        out.append(
            SummaryRow(
                name=name,
                unit=unit,
                meaning=meaning,
                posterior=interval(draws),
                prior=interval(prior[name]),
                contraction=share,
                mostly_prior=share < CONTRACTION_LIMIT,
                prior_sensitivity=sensitivity[name][0],
                likelihood_sensitivity=sensitivity[name][1],
            )
        )
    return out


def sensitivities(fit: Fit) -> dict[str, tuple[float, float]]:
    """Power-scaling sensitivity of every parameter and derived quantity to all priors and to the likelihood.

    NaN where a quantity has draws that are not finite; in the order of the posterior.
    """
    prior, likelihood = (
        scaled_weights(np.sum([x.values for x in fit.groups[name].variables.values()], axis=0))
        for name in ("joint_log_prior", "joint_log_likelihood")
    )
    out = {}
    for name, draws in fit.quantities.items():
        if np.isfinite(draws).all() and np.ptp(draws) > 1e-9 * np.max(np.abs(draws)):
            out[name] = power_sensitivity(draws, prior), power_sensitivity(draws, likelihood)
        else:
            out[name] = math.nan, math.nan
    return out


def scaled_weights(log_part: np.ndarray) -> list[np.ndarray]:
    """Weights of draws under a part of the posterior that is raised to each of `ALPHAS`, shape (draws of all chains,).

    From the log density of the part at every draw, shape (chains, draws).
    """
    whole = log_part.reshape(1, -1)  # all chains as one, as ArviZ takes them
    efficiency = tail_size(whole) / whole.size
    return [smoothed_weights((alpha - 1.0) * whole[0], efficiency)[0] for alpha in ALPHAS]


def power_sensitivity(draws: np.ndarray, weights: list[np.ndarray]) -> float:
    """How fast a quantity's posterior moves with the power of a part of it: distance from weighted draws, a doubling.

    The tests compare it with ArviZ's, which takes seconds to import.
    """
    x = draws.ravel()
    moved = [max(_distance(x, w), _distance(-x, w)) for w in weights]
    return float(np.mean([abs(d / math.log2(alpha)) for d, alpha in zip(moved, ALPHAS, strict=True)]))


def _distance(x: np.ndarray, weight: np.ndarray) -> float:
    """Cumulative Jensen-Shannon distance between draws and the same ones weighted (Nguyen and Vreeken 2015)."""
    order = np.argsort(x)
    width = np.diff(x[order])
    n = len(x)
    p = np.linspace(1.0 / n, 1.0 - 1.0 / n, n - 1)
    q = np.cumsum(weight[order] / np.sum(weight))[:-1]
    area_p, area_q = p @ width, q @ width
    middle = _log2(0.5 * (p + q))
    apart = 0.5 / math.log(2.0) * (area_q - area_p)
    there = max(0.0, np.sum(width * p * (_log2(p) - middle)) + apart)
    back = max(0.0, np.sum(width * q * (_log2(q) - middle)) - apart)
    return math.sqrt((there + back) / (area_p + area_q))


def _log2(x: np.ndarray) -> np.ndarray:
    """Logarithms, 0 where a value is 0."""
    return np.log2(x, out=np.zeros_like(x), where=x != 0.0)


def contraction(fit: Fit, name: str) -> float:
    """Share of the prior's variance that the data removed, on a scale on which the prior is normal.

    A sampled parameter with a normal prior has its own scale; everything else is put on normal scores of its ranks
    under the prior, which for a monotone function of one parameter gives the same number.
    """
    known: dict[str, Parameter] = {p.name: p for p in fit.regime.parameters}
    if name in known and fit.priors[name].fixed:
        return math.nan
    draws = fit.draws(name).ravel()
    normal = name in known and fit.priors[name].quantiles is None
    if normal and known[name].transform.name in ("normal", "log-normal"):
        u = np.log(draws) if known[name].transform.positive else draws
        return float(1.0 - (u.std() / fit.priors[name].spread) ** 2)
    from scipy.special import ndtri

    prior = np.sort(fit.groups["prior"][name].ravel())
    prior = prior[np.isfinite(prior)]
    draws = draws[np.isfinite(draws)]
    if not len(prior) or not len(draws) or np.ptp(prior) <= 1e-9 * np.max(np.abs(prior)):
        return float("nan")  # nothing to learn about what the settings fix
    rank = (np.searchsorted(prior, draws) + 0.5) / (len(prior) + 1)
    return float(1.0 - ndtri(np.clip(rank, 1e-6, 1 - 1e-6)).var())
