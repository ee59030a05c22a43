"""The filter as an associative scan: logarithmic depth over the rows, for accelerators.

Särkkä and García-Fernández 2021 (https://doi.org/10.1109/TAC.2020.2976316). The elements are simpler here than in
the paper, because a row observes the way from one state to the next: given the state before, the row's value and
the state after are jointly normal.

Products of matrices are sums of products here, not `jnp.dot`: the matrices have one to three rows, and batched dots of
their size stop XLA's compiler for NVIDIA GPUs (a failed check in its Triton fusion; jaxlib 0.11.2, 64 bits).
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
    """Log density of the logged rows, equal to `bayes_grpo.dynamics.kalman.log_likelihood` up to rounding."""
    d = dense(space, y.shape[0])
    present = jnp.isfinite(y)
    value = jnp.where(present, y, 0.0) - d.offset
    mean, cov = _states_before(d, value, present)
    ph = _times(cov, d.observation[..., None])[..., 0]
    var = jnp.sum(d.observation * ph, axis=-1) + d.observation_var + d.measurement_var
    var = jnp.where(present, var, 1.0)
    innovation = value - jnp.sum(d.observation * mean, axis=-1)
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
    n = d.initial_mean.shape[0]
    # A stretch of no rows, of which nothing is known but the state after it, stands first.
    start = _Element(jnp.zeros((n, n)), d.initial_mean, d.initial_cov, jnp.zeros(n), jnp.zeros((n, n)))
    elements = jax.tree.map(lambda one, each: jnp.concatenate([one[None], each[:-1]]), start, elements)
    scanned = lax.associative_scan(_combine, elements)
    return scanned.b, scanned.c


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


def _combine(x: _Element, z: _Element) -> _Element:
    """Two stretches of rows, ``x`` before ``z``, as one."""
    # I + C J is well conditioned: both are positive semi-definite.
    between = _inverse(jnp.eye(x.b.shape[-1]) + _times(x.c, z.j))
    ahead = _times(z.a, between)
    back = _times(_turned(x.a), _turned(between))
    c = _times(_times(ahead, x.c), _turned(z.a))
    j = _times(_times(back, z.j), x.a)
    seen = x.b[..., None] + _times(x.c, z.eta[..., None])
    left = z.eta[..., None] - _times(z.j, x.b[..., None])
    return _Element(
        a=_times(ahead, x.a),
        b=_times(ahead, seen)[..., 0] + z.b,
        c=0.5 * (c + _turned(c)) + z.c,
        eta=_times(back, left)[..., 0] + x.eta,
        j=0.5 * (j + _turned(j)) + x.j,
    )


def _turned(m: Array) -> Array:
    return jnp.swapaxes(m, -1, -2)


def _times(m: Array, k: Array) -> Array:
    """Product of matrices, shapes (..., a, b) and (..., b, c)."""
    return jnp.sum(m[..., :, :, None] * k[..., None, :, :], axis=-2)


def _inverse(m: Array) -> Array:
    """Inverse of matrices of up to three rows in closed form, of others by elimination."""
    n = m.shape[-1]
    if n == 1:
        return 1.0 / m
    if n == 2:
        a, b, c, d = m[..., 0, 0], m[..., 0, 1], m[..., 1, 0], m[..., 1, 1]
        columns = [jnp.stack([d, -c], axis=-1), jnp.stack([-b, a], axis=-1)]
        return jnp.stack(columns, axis=-1) / (a * d - b * c)[..., None, None]
    if n == 3:
        a, b, c = m[..., 0, :], m[..., 1, :], m[..., 2, :]
        columns = [jnp.cross(b, c), jnp.cross(c, a), jnp.cross(a, b)]
        return jnp.stack(columns, axis=-1) / jnp.sum(a * columns[0], axis=-1)[..., None, None]
    return jnp.linalg.inv(m)
