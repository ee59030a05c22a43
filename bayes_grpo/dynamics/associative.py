"""The filter as an associative scan: logarithmic depth over the rows, for accelerators.

Särkkä and García-Fernández 2021 (https://doi.org/10.1109/TAC.2020.2976316). The elements are simpler here than in
the paper, because a row observes the way from one state to the next: given the state before, the row's value and
the state after are jointly normal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.state_space import LOG_2PI, StateSpace, dense


class _Element(NamedTuple):
    """p(state after | state before, rows) = N(A s + b, C), and the rows' likelihood in s: (eta, J)."""

    a: Array
    b: Array
    c: Array
    eta: Array
    j: Array


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """Log density of the logged rows, by an associative scan.

    Args:
        space: The regime on the rows.
        y: Logged rewards, shape (T,); NaN = missing.

    Returns:
        The log density, a scalar, equal to `bayes_grpo.dynamics.kalman.log_likelihood` up to rounding.
    """
    d = dense(space, y.shape[0])
    present = jnp.isfinite(y)
    value = jnp.where(present, y, 0.0) - d.offset
    mean, cov = _states_before(d, value, present)
    ph = jnp.einsum("tij,tj->ti", cov, d.observation)
    var = jnp.einsum("ti,ti->t", d.observation, ph) + d.observation_var + d.measurement_var
    var = jnp.where(present, var, 1.0)
    innovation = value - jnp.einsum("ti,ti->t", d.observation, mean)
    return -0.5 * jnp.sum(jnp.where(present, jnp.log(var) + innovation**2 / var + LOG_2PI, 0.0))


def _states_before(d: Any, value: Array, present: Array) -> tuple[Array, Array]:
    """Predicted mean and covariance of the state before every row, shapes (T, n) and (T, n, n)."""
    elements = jax.vmap(_element)(
        d.transition,
        d.noise_cov,
        d.observation,
        d.cross_cov,
        d.observation_var + d.measurement_var,
        value,
        present,
    )
    first = _condition_first(d, value[0], present[0])
    elements = jax.tree.map(lambda all_, one: all_.at[0].set(one), elements, first)
    scanned = lax.associative_scan(jax.vmap(_combine), elements)
    mean = jnp.concatenate([d.initial_mean[None], scanned.b[:-1]])
    cov = jnp.concatenate([d.initial_cov[None], scanned.c[:-1]])
    return mean, cov


def _element(f: Array, q: Array, h: Array, s: Array, r: Array, y: Array, present: Array) -> _Element:
    weight = jnp.where(present, 1.0 / jnp.where(present, r, 1.0), 0.0)
    gain = s * weight
    return _Element(
        a=f - jnp.outer(gain, h),
        b=gain * y,
        c=q - jnp.outer(gain, s),
        eta=h * weight * y,
        j=jnp.outer(h, h) * weight,
    )


def _condition_first(d: Any, y: Array, present: Array) -> _Element:
    """The first row's element, with the initial state already integrated out."""
    f, h, p = d.transition[0], d.observation[0], d.initial_cov
    var = h @ p @ h + d.observation_var[0] + d.measurement_var[0]
    weight = jnp.where(present, 1.0 / jnp.where(present, var, 1.0), 0.0)
    cross = f @ p @ h + d.cross_cov[0]
    gain = cross * weight
    n = h.shape[0]
    return _Element(
        a=jnp.zeros((n, n)),
        b=f @ d.initial_mean + gain * (y - h @ d.initial_mean),
        c=f @ p @ f.T + d.noise_cov[0] - jnp.outer(gain, cross),
        eta=jnp.zeros(n),
        j=jnp.zeros((n, n)),
    )


def _combine(x: _Element, z: _Element) -> _Element:
    """Two stretches of rows, ``x`` before ``z``, as one."""
    n = x.b.shape[0]
    eye = jnp.eye(n)
    # (I + C J) is well conditioned: both are positive semi-definite.
    left = jnp.linalg.solve(eye + x.c @ z.j, jnp.concatenate([x.a, (x.b + x.c @ z.eta)[:, None], x.c], axis=1))
    a_part, b_part, c_part = left[:, :n], left[:, n], left[:, n + 1 :]
    right = jnp.linalg.solve(eye + z.j @ x.c, jnp.concatenate([(z.eta - z.j @ x.b)[:, None], z.j @ x.a], axis=1))
    c = z.a @ c_part @ z.a.T + z.c
    j = x.a.T @ right[:, 1:] + x.j
    return _Element(
        a=z.a @ a_part,
        b=z.a @ b_part + z.b,
        c=0.5 * (c + c.T),
        eta=x.a.T @ right[:, 0] + x.eta,
        j=0.5 * (j + j.T),
    )
