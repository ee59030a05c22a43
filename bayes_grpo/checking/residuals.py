"""Standardised residuals of a fit at posterior draws: one step ahead, and leave-one-out."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.intervals import spread
from bayes_grpo.common.programs import over_draws
from bayes_grpo.dynamics.kalman import filter_rows
from bayes_grpo.dynamics.smoother import smooth
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.sampling.target import PriorNumbers, state_space_at
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

_DRAWS = 400
"""Posterior draws, evenly spread, at which residuals are looked at."""
_CHUNK = 200


class Residuals(NamedTuple):
    """Standardised residuals at posterior draws.

    Attributes:
        innovation: One-step-ahead residual over its sd, given the draw and the rows before, shape (draws, n).
        loo: Residual over its sd given the draw and all other rows, shape (draws, n).
        loo_log_density: Log density of each row given the draw and all others, shape (draws, n).
    """

    innovation: Any
    loo: Any
    loo_log_density: Any


def residuals_of(draws: Draws, count: int = _DRAWS) -> Residuals:
    """Standardised residuals of the rows at evenly spread draws of a posterior."""
    picks, n = spread(draws.size, count), len(draws.rows.table.y)
    with jax.enable_x64(True):
        found = over_draws(_residual_program, (draws.regime,), _CHUNK, draws.sampled(picks), *draws.target.arguments)
    return Residuals(*(x[:, :n] for x in found))


def _residual_program(regime: Regime) -> Any:
    def one(draw: Array, prior: PriorNumbers, rows: Rows) -> tuple[Array, ...]:
        space, y = state_space_at(regime, draw, prior.linear_mean, prior.linear_sd, rows), jnp.asarray(rows.y)
        filtered = filter_rows(space, y)
        found = smooth(space, y, filtered)
        loo = (jnp.where(jnp.isfinite(y), y, found.loo_mean) - found.loo_mean) / jnp.sqrt(found.loo_var)
        return filtered.innovation / jnp.sqrt(filtered.innovation_var), loo, found.loo_log_density

    return jax.vmap(one, in_axes=(0, None, None))


def loo_pit(residuals: Residuals) -> np.ndarray:
    """Probability of a smaller value of each row given all others, shape (n,), with PSIS over the draws."""
    from arviz_stats.base.array import array_stats
    from scipy.special import ndtr

    stats: Any = array_stats
    log_weight, _ = stats.psislw(residuals.loo_log_density, axis=0)  # shape (n, draws)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.sum(weight * ndtr(residuals.loo).T, axis=1) / weight.sum(axis=1)
