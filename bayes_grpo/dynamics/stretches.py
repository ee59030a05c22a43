"""The filter for many draws at once, without a gradient: stretch by stretch of rows, up to the last that matters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.kalman import advance, initial_moments, over_rows, summed
from bayes_grpo.dynamics.state_space import LOG_2PI, Matrix, StateSpace, Vector, dot, matvec, plus

_STRETCH = 32
"""Rows of a stretch, where the number of rows is a multiple of it."""


class Stretches(NamedTuple):
    """A law on stretches of rows, one after another, for many draws at once and without a gradient.

    Attributes:
        initial: Mean and covariance of the state before the first row.
        law: First row of a stretch → the law on its rows.
        length: Rows of a stretch.
    """

    initial: tuple[Vector, Matrix]
    law: Callable[[Any], StateSpace]
    length: int


def stretches_of(law: Callable[[Any], StateSpace], rows: Any, size: int, row_by_row: bool) -> Stretches:
    """A law put on stretches of rows.

    Where a row's entries depend on that row's columns alone, they are computed when the filter gets to its stretch:
    those of a stretch stay in the processor's cache, those of all rows do not, and padded rows cost nothing.

    Args:
        law: The law on rows.
        rows: Columns of the rows, a tree; those of shape (T,) vary over rows.
        size: Number of rows T.
        row_by_row: Whether the law's entries of a row depend on the columns of that row alone.

    Returns:
        The law on stretches.
    """
    length = math.gcd(_STRETCH, size) if size % 8 == 0 else size

    def part(tree: Any, first: Any) -> Any:
        def cut(x: Any) -> Any:
            return lax.dynamic_slice_in_dim(jnp.asarray(x), first, length) if jnp.shape(x) == (size,) else x

        return jax.tree.map(cut, tree)

    if row_by_row:
        return Stretches(initial_moments(law(part(rows, 0))), lambda first: law(part(rows, first)), length)
    space = law(rows)
    return Stretches(initial_moments(space), lambda first: part(space, first), length)


def log_likelihood(law: Stretches, y: Array) -> Array:
    """`bayes_grpo.dynamics.kalman.log_likelihood` for many draws at once and without a gradient.

    It stops behind the last logged row, so that rows may be padded to one of few lengths at little cost.

    Args:
        law: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.

    Returns:
        The log density, a scalar.
    """

    def stretch(i: Any, carry: Any) -> Any:
        varying, at = over_rows(law.law(i * law.length))
        value = lax.dynamic_slice_in_dim(y, i * law.length, law.length)
        return lax.scan(summed(at), carry, (value, varying))[0]

    return lax.fori_loop(0, _needed(law, y), stretch, (*law.initial, jnp.zeros(())))[2]


def _needed(law: Stretches, y: Array) -> Array:
    """Stretches up to the last value."""
    last = jnp.max(jnp.where(jnp.isfinite(y), jnp.arange(1, len(y) + 1), 0))
    return -(-last // law.length)


def row_densities(law: Stretches, known: Array, scored: Array) -> Array:
    """Log density of values given the known rows before each, for many draws at once and without a gradient.

    Where no row is known from some row on, every later density is that of a row some way ahead by itself.

    Args:
        law: The law on the rows.
        known: Logged rewards, shape (k, T): what is known in each of k cases; NaN = nothing.
        scored: Values whose densities are wanted, shape (T,); NaN = none.

    Returns:
        Shape (k, T); 0 where there is nothing to score.
    """

    def one(here: StateSpace, mean: Vector, cov: Matrix, value: Array, wanted: Array) -> Any:
        var = plus(dot(here.observation, matvec(cov, here.observation)), here.observation_var)
        var = plus(var, here.measurement_var)
        error = jnp.where(jnp.isfinite(wanted), wanted, 0.0) - plus(dot(here.observation, mean), here.offset)
        density = -0.5 * (jnp.log(var) + error**2 / var + LOG_2PI)
        mean, cov, _ = advance(here, mean, cov, value)
        return (mean, cov), jnp.where(jnp.isfinite(wanted), density, 0.0)

    def stretch(i: Any, carry: Any) -> Any:
        varying, at = over_rows(law.law(i * law.length))
        values = lax.dynamic_slice_in_dim(known, i * law.length, law.length, axis=1)
        wanted = lax.dynamic_slice_in_dim(scored, i * law.length, law.length)

        def body(states: Any, row: Any) -> Any:
            value, wanted, entries = row
            here = at(entries)
            return jax.vmap(lambda state, y: one(here, state[0], state[1], y, wanted))(states, value)

        states, found = carry
        states, density = lax.scan(body, states, (values.T, wanted, varying))
        return states, lax.dynamic_update_slice_in_dim(found, density.T, i * law.length, axis=1)

    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(known),)), law.initial)
    return lax.fori_loop(0, _needed(law, scored), stretch, (start, jnp.zeros(known.shape)))[1]
