"""Paths of a state space: from a state before some rows, over these rows, with their noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.kalman import advance, at_row, initial_moments, over_rows
from bayes_grpo.dynamics.state_space import Entry, Matrix, StateSpace, Vector, dot, matvec, plus, times


class StatePath(NamedTuple):
    """One path over the rows, arrays of shape (T,); 0 outside the rows that it was carried over.

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


def carried(space: StateSpace, start: Vector, first: Array, last: Array, noise: Array) -> StatePath:
    """Carries a state over rows with their noise.

    Args:
        space: The law on the rows.
        start: State before the first of them, n entries.
        first: Index of the first of them, an integer scalar.
        last: Index behind the last of them, an integer scalar.
        noise: Standard normal numbers, the law's and the measurement's, shape (T, n + 2).

    Returns:
        The path.
    """
    n = space.size

    def step(t: Any, carry: tuple[Vector, Vector, StatePath]) -> tuple[Vector, Vector, StatePath]:
        state, expected, path = carry
        here = at_row(space, t)
        z = tuple(noise[t, j] for j in range(n + 2))
        joint = tuple((*here.noise_cov[i], here.cross_cov[i]) for i in range(n))
        root = square_root((*joint, (*here.cross_cov, here.observation_var)))
        kick = tuple(dot(row, z[: n + 1]) for row in root)
        latent = plus(plus(dot(here.observation, state), here.offset), kick[n])
        trend = plus(dot(here.observation, expected), here.offset)
        shown = latent + jnp.sqrt(jnp.asarray(here.measurement_var, float)) * z[n + 1]
        path = StatePath(*(x.at[t].set(v) for x, v in zip(path, (latent, trend, shown), strict=True)))
        moved = tuple(plus(m, k) for m, k in zip(matvec(here.transition, state), kick[:n], strict=True))
        return _arrays(moved), _arrays(matvec(here.transition, expected)), path

    empty = StatePath(*(jnp.zeros(len(noise)) for _ in range(3)))
    return lax.fori_loop(first, last, step, (_arrays(start), _arrays(start), empty))[2]


def mean_path(space: StateSpace, initial: Array, rows: int) -> Array:
    """Latent reward of every row if nothing forced the law, from a given initial state.

    Args:
        space: The law on the rows.
        initial: State before the first row, shape (n,).
        rows: Number of rows T.

    Returns:
        The law's mean trajectory, shape (T,).
    """
    varying, at = over_rows(space)

    def body(state: Any, entries: Any) -> tuple[Any, Array]:
        sp = at(entries)
        reward = plus(dot(sp.observation, state), sp.offset)
        after = tuple(jnp.asarray(x, float) for x in matvec(sp.transition, state))
        return after, jnp.asarray(reward, float)

    return lax.scan(body, tuple(initial[i] for i in range(space.size)), varying, length=rows)[1]


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
