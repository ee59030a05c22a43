"""The filter for many draws at once, without a gradient: stretch by stretch of rows, up to the last that matters."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.kalman import advance, initial_moments, over_rows, summed
from bayes_grpo.dynamics.state_space import LOG_2PI, Matrix, StateSpace, Vector, dot, matvec, plus

_STRETCH = 32
"""Rows of a stretch, where the number of rows is a multiple of it."""


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """`bayes_grpo.dynamics.kalman.log_likelihood` for many draws at once and without a gradient.

    It stops behind the last logged row, so that rows may be padded to one of few lengths at little cost.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.

    Returns:
        The log density, a scalar.
    """
    y = jnp.asarray(y)
    varying, at = over_rows(space)
    length, needed = _stretches(y)

    def stretch(i: Any, carry: Any) -> Any:
        value, *entries = (lax.dynamic_slice_in_dim(x, i * length, length) for x in (y, *varying))
        return lax.scan(summed(at), carry, (value, entries))[0]

    return lax.fori_loop(0, needed, stretch, (*initial_moments(space), jnp.zeros(())))[2]


def _stretches(y: Array) -> tuple[int, Array]:
    """Rows of a stretch, and the number of stretches up to the last value."""
    size = len(y)
    length = math.gcd(_STRETCH, size) if size % 8 == 0 else size
    last = jnp.max(jnp.where(jnp.isfinite(y), jnp.arange(1, size + 1), 0))
    return length, -(-last // length)


def row_densities(space: StateSpace, known: Array, scored: Array) -> Array:
    """Log density of values given the known rows before each, for many draws at once and without a gradient.

    Where no row is known from some row on, every later density is that of a row some way ahead by itself.

    Args:
        space: The law on the rows.
        known: Logged rewards, shape (k, T): what is known in each of k cases; NaN = nothing.
        scored: Values whose densities are wanted, shape (T,); NaN = none.

    Returns:
        Shape (k, T); 0 where there is nothing to score.
    """
    varying, law_at = over_rows(space)
    length, needed = _stretches(scored)

    def one(here: StateSpace, mean: Vector, cov: Matrix, value: Array, wanted: Array) -> Any:
        var = plus(dot(here.observation, matvec(cov, here.observation)), here.observation_var)
        var = plus(var, here.measurement_var)
        error = jnp.where(jnp.isfinite(wanted), wanted, 0.0) - plus(dot(here.observation, mean), here.offset)
        density = -0.5 * (jnp.log(var) + error**2 / var + LOG_2PI)
        mean, cov, _ = advance(here, mean, cov, value)
        return (mean, cov), jnp.where(jnp.isfinite(wanted), density, 0.0)

    def stretch(i: Any, carry: Any) -> Any:
        values = lax.dynamic_slice_in_dim(known, i * length, length, axis=1)
        wanted, *entries = (lax.dynamic_slice_in_dim(x, i * length, length) for x in (scored, *varying))

        def body(states: Any, row: Any) -> Any:
            value, wanted, entries = row
            here = law_at(entries)
            return jax.vmap(lambda state, y: one(here, state[0], state[1], y, wanted))(states, value)

        states, found = carry
        states, density = lax.scan(body, states, (values.T, wanted, entries))
        return states, lax.dynamic_update_slice_in_dim(found, density.T, i * length, axis=1)

    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(known),)), initial_moments(space))
    return lax.fori_loop(0, needed, stretch, (start, jnp.zeros(known.shape)))[1]
