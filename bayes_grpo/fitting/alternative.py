"""A fit under another prior of the damping ratio: the same draws, reweighted.

The other prior is the fit's own, moved down by one of its standard deviations in the coordinate in which it is normal.
With z the standardized coordinate of a draw, its weight is the ratio of the two densities, N(z | -1, 1) / N(z | 0, 1),
smoothed by its Pareto tail (`bayes_grpo.common.sampling.smoothed_weights`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bayes_grpo.common.sampling import smoothed_weights
from bayes_grpo.dynamics.state_space import LOG_2PI
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.adaptive import PARETO_K

PARAMETER = "damping_ratio"
"""The parameter of which an oscillator's log says least, and on which stiffness and damping depend most."""
SHIFT = -1.0
"""Prior standard deviations from the fit's prior to the other one."""
LEAST_REWEIGHTED = 100.0
"""Effective draws below which the reweighted medians are not shown."""


@dataclass(frozen=True)
class AlternativePrior:
    """Medians of parameters and derived quantities under the prior of the fit and under another one of one parameter.

    ``prior`` and ``other`` are the medians of these two; ``effective`` is the effective size of the weights, in draws,
    and ``pareto_k`` the shape of their tail: above 0.7 their sums cannot be trusted.
    """

    parameter: str
    prior: float
    other: float
    effective: float
    pareto_k: float
    medians: Mapping[str, tuple[float, float]]

    @property
    def usable(self) -> bool:
        """True if the draws reach the posterior under the other prior."""
        return self.effective >= LEAST_REWEIGHTED and not self.pareto_k > PARETO_K


def alternative_prior(fit: Fit) -> AlternativePrior | None:
    """Medians of all quantities under another prior of the damping ratio; None where there is none or it is fixed."""
    if PARAMETER not in fit.priors or fit.priors[PARAMETER].fixed:
        return None
    prior = fit.priors[PARAMETER]
    draws = fit.draws(PARAMETER).ravel()
    log_prior = fit.groups["joint_log_prior"][PARAMETER].ravel()
    squared = -2.0 * (log_prior + math.log(prior.spread)) - LOG_2PI
    z = np.sign(draws - prior.median) * np.sqrt(np.maximum(squared, 0.0))
    weight, k = smoothed_weights(SHIFT * z, 1.0)
    values = {name: x.ravel() for name, x in fit.quantities.items()}
    medians = {name: (float(np.median(x)), _weighted_median(x, weight)) for name, x in values.items()}
    # Of draws of the prior, so that the bend of negative damping ratios is in it.
    other = float(np.quantile(fit.groups["prior"][PARAMETER], NormalDist().cdf(SHIFT)))
    return AlternativePrior(PARAMETER, prior.median, other, float(1.0 / np.sum(weight**2)), float(k), medians)


def _weighted_median(x: np.ndarray, weight: np.ndarray) -> float:
    order = np.argsort(x, kind="stable")
    return float(x[order][np.searchsorted(np.cumsum(weight[order]), 0.5)])
