"""Paths of a state space: from a state before some rows, over these rows, with their noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.kalman import advance, at_row, initial_moments
from bayes_grpo.dynamics.state_space import Entry, Matrix, StateSpace, Vector, dot, matvec, plus, times


class Path(NamedTuple):
    """One path over the rows to come, arrays of shape (h,).

    Attributes:
        latent: Latent reward of each row.
        trend: What the law expects of it from the same first state, without the noise to come.
        shown: What a logged row would show.
    """

    latent: Array
    trend: Array
    shown: Array


def state_before(space: StateSpace, y: Array, first: Array) -> tuple[Vector, Matrix]:
    """Mean and covariance of the state before a row given all rows before it.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.
        first: Index of the row, an integer scalar; the number of rows that are filtered may change from call to call.

    Returns:
        n entries and n × n entries.
    """

    def body(t: Any, carry: tuple[Vector, Matrix]) -> tuple[Vector, Matrix]:
        return advance(at_row(space, t), *carry, y[t])[:2]

    return lax.fori_loop(0, first, body, initial_moments(space))


def carried(space: StateSpace, start: Vector, first: Array, noise: Array, error: Array) -> Path:
    """Carries a state over the rows from one on, with their noise.

    Args:
        space: The law on the rows.
        start: State before the first of them, n entries.
        first: Index of the first of them, an integer scalar.
        noise: Standard normal numbers for the law's noise, shape (h, n + 1).
        error: The same for the measurement noise, shape (h,).

    Returns:
        The path.
    """
    n = space.size

    def step(carry: tuple[Vector, Vector], row: Any) -> tuple[tuple[Vector, Vector], Path]:
        (state, expected), (t, z, e) = carry, row
        here = at_row(space, first + t)
        joint = tuple((*here.noise_cov[i], here.cross_cov[i]) for i in range(n))
        root = square_root((*joint, (*here.cross_cov, here.observation_var)))
        kick = tuple(dot(row, tuple(z[j] for j in range(n + 1))) for row in root)
        latent = plus(plus(dot(here.observation, state), here.offset), kick[n])
        trend = plus(dot(here.observation, expected), here.offset)
        shown = latent + jnp.sqrt(jnp.asarray(here.measurement_var, float)) * e
        moved = tuple(plus(m, k) for m, k in zip(matvec(here.transition, state), kick[:n], strict=True))
        out = Path(*(jnp.asarray(x, float) for x in (latent, trend, shown)))
        return (_arrays(moved), _arrays(matvec(here.transition, expected))), out

    return lax.scan(step, (_arrays(start), _arrays(start)), (jnp.arange(len(error)), noise, error))[1]


def square_root(cov: Matrix) -> Matrix:
    """A square root of a covariance that may be singular (a state that starts at rest has no variance).

    Args:
        cov: n × n entries; structural zeros stay zeros.

    Returns:
        Lower triangular, n × n entries.
    """
    n = len(cov)
    largest = jnp.max(jnp.stack([jnp.abs(jnp.asarray(cov[i][i], float)) for i in range(n)]))
    root: list[list[Entry]] = [[0.0] * n for _ in range(n)]
    for j in range(n):
        if all(_is_zero(cov[i][j]) for i in range(n)):
            continue
        rest = cov[j][j]
        for k in range(j):
            rest = plus(rest, -times(root[j][k], root[j][k]))
        positive = rest > 1e-14 * largest
        diagonal = jnp.sqrt(jnp.where(positive, rest, 1.0))
        root[j][j] = jnp.where(positive, diagonal, 0.0)
        for i in range(j + 1, n):
            left = cov[i][j]
            for k in range(j):
                left = plus(left, -times(root[i][k], root[j][k]))
            root[i][j] = 0.0 if _is_zero(left) else jnp.where(positive, left / diagonal, 0.0)
    return tuple(tuple(row) for row in root)


def _is_zero(entry: Entry) -> bool:
    return isinstance(entry, float | int) and entry == 0


def _arrays(entries: Vector) -> Vector:
    return tuple(jnp.asarray(x, float) for x in entries)
