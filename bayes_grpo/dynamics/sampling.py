"""Draws of rows and states of a linear Gaussian state space, each by one sequential scan over the rows.

``space`` is the regime on T rows with a state of n components, and ``y`` are logged rewards of shape (T,); NaN is a
missing value.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.kalman import Moments, as_arrays, initial_moments, kalman_step, over_rows, row_density
from bayes_grpo.dynamics.state_space import Matrix, StateSpace, Vector, dot, matvec, plus, square_root


def draw_rows(space: StateSpace, y: Array, noise: Array) -> tuple[Array, Array]:
    """Rows drawn from the regime, each given those before it, and the log density of the logged rows.

    Gains and variances do not depend on the values, so one pass serves both runs.

    From standard normal numbers of shape (T,): drawn rows, shape (T,), NaN where the log has none; and
    `bayes_grpo.dynamics.kalman.log_likelihood`.
    """
    varying, at = over_rows(space)

    def body(carry: tuple[Moments, Vector], row: Any) -> tuple[tuple[Moments, Vector], tuple[Array, Array]]:
        value, z, entries = row
        here = at(entries)
        after, (innovation, var, gain) = kalman_step(here, carry[0], value)
        surprise = jnp.sqrt(var) * z
        drawn = plus(dot(here.observation, carry[1]), here.offset) + surprise
        moved = matvec(here.transition, carry[1])
        drawn_mean = tuple(plus(m, k * surprise) for m, k in zip(moved, gain, strict=True))
        drawn = jnp.where(jnp.isfinite(value), drawn, jnp.nan)
        return (after, drawn_mean), (drawn, row_density(value, innovation, var))

    start = initial_moments(space)
    drawn, density = lax.scan(body, (start, start.mean), (y, noise, varying))[1]
    return drawn, jnp.sum(density)


def state_before(space: StateSpace, y: Array, first: Array, noise: Vector) -> Vector:
    """Draws the state before a row given all rows before it, n entries, from n standard normal numbers.

    ``first`` is the index of the row, an integer scalar that may change from call to call of a compiled program.
    """
    varying, at = over_rows(space)

    def body(t: Any, before: Moments) -> Moments:
        return kalman_step(at([x[t] for x in varying]), before, y[t])[0]

    found = lax.fori_loop(0, first, body, initial_moments(space))
    return drawn_state(found.mean, found.cov, noise)


def drawn_state(mean: Vector, cov: Matrix, noise: Vector) -> Vector:
    """A state with these moments, from n standard normal numbers; n entries."""
    return tuple(m + dot(row, noise) for m, row in zip(mean, square_root(cov), strict=True))


def propagate(space: StateSpace, start: Vector, first: Array, last: Array, noise: Array) -> tuple[Array, ...]:
    """Carries a state over rows with their noise.

    ``start`` is the state before the first of them, n entries; ``first`` the index of that row and ``last`` the one
    behind the last, integer scalars; the noise of states and measurements are standard normal numbers of shape (T, n +
    2).

    Gives the latent reward of each row; its expectation from the same first state, without the noise to come; and what
    a logged row would show. Of shape (T,) each, 0 outside the rows.
    """
    n = space.size
    varying, at = over_rows(space)

    def step(t: Any, carry: tuple[Vector, Vector, tuple[Array, ...]]) -> Any:
        state, expected, path = carry
        here = at([x[t] for x in varying])
        z = tuple(noise[t, j] for j in range(n + 2))
        joint = tuple((*here.noise_cov[i], here.cross_cov[i]) for i in range(n))
        root = square_root((*joint, (*here.cross_cov, here.observation_var)))
        kick = tuple(dot(row, z[: n + 1]) for row in root)
        latent = plus(plus(dot(here.observation, state), here.offset), kick[n])
        trend = plus(dot(here.observation, expected), here.offset)
        shown = latent + jnp.sqrt(jnp.asarray(here.measurement_var, float)) * z[n + 1]
        path = tuple(x.at[t].set(v) for x, v in zip(path, (latent, trend, shown), strict=True))
        moved = tuple(plus(m, k) for m, k in zip(matvec(here.transition, state), kick[:n], strict=True))
        return as_arrays(moved), as_arrays(matvec(here.transition, expected)), path

    empty = (jnp.zeros(len(noise)),) * 3
    return lax.fori_loop(first, last, step, (as_arrays(start), as_arrays(start), empty))[2]


def mean_path(space: StateSpace, initial: Array, rows: int) -> Array:
    """Latent reward of every one of T rows without noise, shape (T,), from a state of shape (n,) before the first."""
    varying, at = over_rows(space)

    def body(state: Vector, entries: list[Array]) -> tuple[Vector, Array]:
        here = at(entries)
        reward = plus(dot(here.observation, state), here.offset)
        return as_arrays(matvec(here.transition, state)), jnp.asarray(reward, float)

    return lax.scan(body, tuple(initial[i] for i in range(space.size)), varying, length=rows)[1]
