"""Posterior-predictive paths: each draw's state after the last row, carried over future rows with its noise.

The future rows are appended to the past ones with missing values, so that every law is put on them by the same code
that put it on the log: windows, gaps, learning rate and laws that depend on the step all hold beyond the last row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.programs import over_draws
from bayes_grpo.dynamics.paths import carried, square_root, state_before
from bayes_grpo.dynamics.state_space import dot
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.future import FutureRows, extended
from bayes_grpo.rows.padding import Rows, doubled, shared
from bayes_grpo.rows.table import RowTable

CHUNK = 250
"""Draws a call of the compiled program; a forecast of any size compiles once."""


class Paths(NamedTuple):
    """Predictive draws.

    Attributes:
        latent: Latent reward of each future row, shape (draws, h).
        trend: What the law expects of it from the same present state, without the noise to come, shape (draws, h).
        rows: What a logged row would show, shape (draws, h).
        fixed_point: Fixed point of each draw, shape (draws,).
    """

    latent: np.ndarray
    trend: np.ndarray
    rows: np.ndarray
    fixed_point: np.ndarray


def predict(
    regime: Regime,
    table: RowTable,
    priors: Mapping[str, Prior],
    values: Mapping[str, np.ndarray],
    future: FutureRows,
    seed: int,
) -> Paths:
    """Predictive paths of draws of a regime's posterior.

    Args:
        regime: The law.
        table: Rows that were fitted.
        priors: Priors that were used; those of the linear levels enter the filter.
        values: Draws of the sampled parameters in their units, shape (draws,) each.
        future: Future rows.
        seed: Seed.

    Returns:
        One path a draw.
    """
    names = [p.name for p in regime.sampled]
    total, first, h = len(values[names[0]]), len(table.y), len(future.step)
    past, horizon = shared(table), doubled(h)
    rows = shared(extended(table, future), len(past.y) + horizon)
    # Some coordinates refer to the log's length: they keep the meaning that they had when the law was fitted.
    rows = rows._replace(length=past.length, spacing=past.spacing, start_speed=past.start_speed)
    levels = np.array([[priors[p.name].median, priors[p.name].spread] for p in regime.linear])
    draws = np.stack([np.asarray(values[name], float) for name in names], axis=-1)
    with jax.enable_x64(True):
        # Split for whole chunks: how many draws there are then changes no draw's randomness.
        keys = jax.random.split(jax.random.key(seed), -(-total // CHUNK) * CHUNK)[:total]
        each = (np.asarray(jax.random.key_data(keys)), draws)
        latent, trend, shown, fixed = over_draws(
            _paths_program, (regime, horizon), CHUNK, each, levels, rows, np.asarray(first)
        )
    return Paths(latent[:, :h], trend[:, :h], shown[:, :h], fixed)


def _paths_program(regime: Regime, horizon: int) -> Any:
    """Program that draws the state after the last row and carries it over ``horizon`` rows, for a chunk of draws."""
    names = [p.name for p in regime.sampled]
    levels = [p.name for p in regime.linear]

    def one(key: Array, draw: Array, prior: Array, rows: Rows, first: Array) -> Any:
        values = {name: draw[i] for i, name in enumerate(names)}
        given = {name: (prior[i, 0], prior[i, 1]) for i, name in enumerate(levels)}
        space = regime.state_space(values, given, rows)
        n = space.size
        noise = jax.random.normal(key, (horizon + 1, n + 2))
        mean, cov = state_before(space, jnp.asarray(rows.y), first)
        start = tuple(m + dot(row, tuple(noise[horizon, :n])) for m, row in zip(mean, square_root(cov), strict=True))
        path = carried(space, start, first, noise[:horizon, : n + 1], noise[:horizon, n + 1])
        return path.latent, path.trend, path.shown, start[-1]

    def run(draws: tuple[Array, Array], prior: Array, rows: Rows, first: Array) -> Any:
        keys = jax.random.wrap_key_data(draws[0])
        return jax.vmap(one, in_axes=(0, 0, None, None, None))(keys, draws[1], prior, rows, first)

    return run
