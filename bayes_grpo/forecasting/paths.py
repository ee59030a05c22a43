"""Posterior-predictive paths: each draw's state after the last row, carried over future rows with its noise.

The future rows are appended to the past ones with missing values, so that every regime is put on them by the same code
that put it on the log: windows, gaps, learning rate and regimes that depend on the step all hold beyond the last row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.programs import over_draws
from bayes_grpo.common.sampling import spawn
from bayes_grpo.dynamics.sampling import propagate, state_before
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.sampling.target import PriorNumbers, prior_levels, state_size
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows, followed_by
from bayes_grpo.rows.schedule import FutureGrid


class Paths(NamedTuple):
    """Predictive draws.

    Attributes:
        latent: Latent reward of each future row, shape (draws, h).
        trend: What the regime expects of it from the same present state, without the noise to come, shape (draws, h).
        rows: What a logged row would show, shape (draws, h).
        fixed_point: Fixed point of each draw, shape (draws,).
    """

    latent: np.ndarray
    trend: np.ndarray
    rows: np.ndarray
    fixed_point: np.ndarray


def predict(draws: Draws, picks: np.ndarray, future: FutureGrid, seed: int) -> Paths:
    """Predictive paths of the picked draws of a posterior over future rows, one a pick."""
    total = len(picks)
    first = len(draws.rows.y)
    h = len(future.step)
    rows = followed_by(draws.target.arrays, draws.rows, future)
    prior = draws.target.numbers
    n = state_size(draws.regime, rows)
    # Each drawn draw by draw: how many draws there are changes no draw's randomness.
    begin, later = (np.random.default_rng(part) for part in spawn(seed, 2))
    start = begin.standard_normal((total, n), np.float32)
    noise = np.zeros((total, len(rows.y), n + 2), np.float32)
    noise[:, first : first + h] = later.standard_normal((total, h, n + 2), np.float32)
    each = (draws.picked(picks), start, noise)
    ends = np.array([first, first + h])
    latent, trend, shown, fixed = over_draws(_path, (draws.regime,), each, prior, rows, ends)
    ahead = slice(first, first + h)
    return Paths(latent[:, ahead], trend[:, ahead], shown[:, ahead], fixed)


def _path(
    regime: Regime, draw: tuple[dict[str, Array], Array, Array], prior: PriorNumbers, rows: Rows, ends: Array
) -> Any:
    """Draws the state after the last row and carries it over the rows to come."""
    values, begin, noise = draw
    space = regime.on_rows(values, prior_levels(regime, prior), rows)
    start = state_before(space, jnp.asarray(rows.y), ends[0], tuple(begin))
    return *propagate(space, start, ends[0], ends[1], noise), start[-1]
