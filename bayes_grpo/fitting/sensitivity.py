"""How much a posterior moves with its prior and with its likelihood: power scaling, by ArviZ.

Prior (or likelihood) is raised to powers near 1, the draws are reweighted, and the distance between the two posteriors
of a quantity is measured (Kallioinen et al. 2024, https://doi.org/10.1007/s11222-023-10366-5).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.common import imports
from bayes_grpo.fitting.result import Fit

ALPHAS = (0.99, 1.01)
"""Powers to which prior and likelihood are raised."""
THRESHOLD = 0.05
"""Sensitivity from which a posterior depends on a part."""


class Sensitivity(NamedTuple):
    """Power-scaling sensitivity of one quantity; NaN where the quantity has draws that are not finite.

    Attributes:
        prior: To the prior of all parameters.
        likelihood: To the likelihood of all rows.
    """

    prior: float
    likelihood: float


def sensitivities(fit: Fit) -> dict[str, Sensitivity]:
    """Sensitivity of every parameter and derived quantity of a fit, in the order of the posterior."""
    stats = imports.statistics()
    totals = (
        np.sum([x.to_numpy() for x in fit.data[group].dataset.data_vars.values()], axis=0)
        for group in ("joint_log_prior", "joint_log_likelihood")
    )
    weights = [[np.exp(stats.power_scale_lw(x, alpha=a, axis=(-2, -1))) for a in ALPHAS] for x in totals]
    out = {}
    for name in fit.data["posterior"].dataset.data_vars:
        draws = fit.draws(str(name))
        if np.isfinite(draws).all() and np.ptp(draws) > 0:
            found = (float(stats.power_scale_sense(draws, *pair, *ALPHAS)) for pair in weights)
            out[str(name)] = Sensitivity(*found)
        else:
            out[str(name)] = Sensitivity(math.nan, math.nan)
    return out
