"""Filter and smoother of a linear Gaussian state space, each one sequential scan over the rows.

The recursions run on scalars, not on small matrices: XLA fuses them into one loop body. Everywhere ``space`` is the
regime on T rows with a state of n components, and ``y`` are logged rewards of shape (T,); NaN is a missing value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.common.programs import accelerated
from bayes_grpo.dynamics.state_space import (
    LOG_2PI,
    Entry,
    Matrix,
    StateSpace,
    Vector,
    dot,
    matvec,
    plus,
    product,
    symmetric_matrix,
    symmetric_product,
    times,
    transpose,
    upper,
)


class Moments(NamedTuple):
    """Mean and covariance of a state of n components, as a loop carries them.

    ``upper`` are the covariances on and above the diagonal, row by row, n (n + 1) / 2 arrays. A loop that carries each
    pair of mirrored ones takes a third longer, and so does its gradient.
    """

    mean: Vector
    upper: Vector

    @property
    def cov(self) -> Matrix:
        """The whole covariance, n × n arrays."""
        return symmetric_matrix(self.upper, len(self.mean))


class Filtered(NamedTuple):
    """One-step predictions of every row.

    Attributes:
        log_likelihood: Log density of all logged rows, scalar.
        innovation: Logged minus predicted, shape (T,); 0 where missing. ``innovation_var`` is its variance.
        gain: Gain of the one-step predictor, n arrays of shape (T,); 0 where missing.
        mean: Predicted state before each row, n arrays of shape (T,); ``cov`` its covariance, n × n.
    """

    log_likelihood: Array
    innovation: Array
    innovation_var: Array
    gain: Vector
    mean: Vector
    cov: Matrix


class Smoothed(NamedTuple):
    """Result of the filter over all rows.

    Attributes:
        latent_mean: Latent reward of each row given all rows, shape (T,), as its variance ``latent_var``.
        loo_mean: Logged value of each row given all *other* rows, shape (T,), as its variance ``loo_var``.
        loo_log_density: Log density of each logged value given all others, shape (T,); NaN where missing.
        initial_mean: State before the first row given all rows, n scalars; ``initial_cov`` n × n.
    """

    latent_mean: Array
    latent_var: Array
    loo_mean: Array
    loo_var: Array
    loo_log_density: Array
    initial_mean: Array
    initial_cov: Array


def over_rows(space: StateSpace) -> tuple[list[Array], Callable[[list[Array]], StateSpace]]:
    """The entries that vary over rows, to scan over, and a function of a row's entries: the state space there."""
    leaves, treedef = jax.tree.flatten(tuple(space)[2:])
    varies = [getattr(leaf, "ndim", 0) == 1 for leaf in leaves]

    def at(row: list[Array]) -> StateSpace:
        values = iter(row)
        combined = [next(values) if v else leaf for v, leaf in zip(varies, leaves, strict=True)]
        return StateSpace(space.initial_mean, space.initial_cov, *jax.tree.unflatten(treedef, combined))

    return [leaf for v, leaf in zip(varies, leaves, strict=True) if v], at


def initial_moments(space: StateSpace) -> Moments:
    """Moments of the state before the first row."""
    return Moments(as_arrays(space.initial_mean), as_arrays(upper(space.initial_cov)))


def as_arrays(entries: Vector) -> Vector:
    """Entries as arrays, as a loop carries them."""
    return tuple(jnp.asarray(x, float) for x in entries)


def kalman_step(space: StateSpace, before: Moments, y: Array) -> tuple[Moments, Any]:
    """One row: from the prediction of the state before it to that of the state after it.

    ``space`` is the state space on this row, see `over_rows`. Gives the moments of the state after the row; and the
    row's innovation, its variance and the gain.
    """
    present = jnp.isfinite(y)
    n = space.size
    moves = (*space.transition, space.observation)
    *moved, predicted = matvec(moves, before.mean)
    spread = symmetric_product(moves, before.cov)
    var = jnp.where(present, plus(plus(spread[n][n], space.observation_var), space.measurement_var), 1.0)
    innovation = jnp.where(present, jnp.where(present, y, 0.0) - plus(predicted, space.offset), 0.0)
    weight = jnp.where(present, 1.0 / var, 0.0)
    cross = tuple(plus(spread[i][n], space.cross_cov[i]) for i in range(n))
    gain = tuple(times(c, weight) for c in cross)
    mean = tuple(plus(m, times(k, innovation)) for m, k in zip(moved, gain, strict=True))
    cov = tuple(
        plus(plus(spread[i][j], space.noise_cov[i][j]), -times(cross[i], gain[j]))
        for i in range(n)
        for j in range(i, n)
    )
    return Moments(as_arrays(mean), as_arrays(cov)), (innovation, var, gain)


def row_density(y: Array, innovation: Array, var: Array) -> Array:
    """Log density of a logged value given those before it, 0 where it is missing."""
    return jnp.where(jnp.isfinite(y), -0.5 * (jnp.log(var) + innovation**2 / var + LOG_2PI), 0.0)


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """Log density of the logged rows, a scalar; on an accelerator by `bayes_grpo.dynamics.associative`."""
    if not accelerated():
        return sequential_log_likelihood(space, y)
    from bayes_grpo.dynamics import associative

    return associative.log_likelihood(space, y)


def sequential_log_likelihood(space: StateSpace, y: Array) -> Array:
    """The same by one pass over the rows, and its derivatives by one more back.

    JAX's own way back stores every product of the way forth: with it a chain of NUTS takes 1.4 times as long.
    """
    leaves, treedef = jax.tree.flatten(tuple(space))

    def combine(arrays: list[Any], others: list[Any]) -> StateSpace:
        found = [other if array is None else array for array, other in zip(arrays, others, strict=True)]
        return StateSpace(*jax.tree.unflatten(treedef, found))

    @jax.custom_jvp
    def density(arrays: list[Any], y: Array) -> Array:
        return _density_of_rows(combine(arrays, leaves), y)

    @density.defjvp
    def _(primals: tuple[list[Any], Array], tangents: tuple[list[Any], Array]) -> tuple[Array, Array]:
        along = combine(tangents[0], [0.0] * len(leaves))
        return _value_and_slope(combine(primals[0], leaves), primals[1], along, tangents[1])

    return density([None if isinstance(x, float | int) else x for x in leaves], jnp.asarray(y))


_CHUNK = 32
"""Rows of a chunk, where the number of rows is a multiple of it."""


def _density_of_rows(space: StateSpace, y: Array) -> Array:
    """The pass forth, chunk by chunk: it stops behind the last logged row, so that padding costs little."""
    size = len(y)
    varying, at = over_rows(space)
    length = math.gcd(_CHUNK, size) if size % 8 == 0 else size
    needed = -(-jnp.max(jnp.where(jnp.isfinite(y), jnp.arange(1, size + 1), 0)) // length)

    def body(carry: tuple[Moments, Array], row: tuple[Array, list[Array]]) -> tuple[tuple[Moments, Array], None]:
        after, (innovation, var, _) = kalman_step(at(row[1]), carry[0], row[0])
        return (after, carry[1] + row_density(row[0], innovation, var)), None

    def chunk(i: Any, carry: Any) -> Any:
        value, *entries = (lax.dynamic_slice_in_dim(x, i * length, length) for x in (y, *varying))
        return lax.scan(body, carry, (value, entries))[0]

    return lax.fori_loop(0, needed, chunk, (initial_moments(space), jnp.zeros(())))[1]


def _value_and_slope(space: StateSpace, y: Array, along: StateSpace, y_along: Array) -> tuple[Array, Array]:
    """Log density of the logged rows, and its derivative along a change of all entries and of the rows.

    With ŝ the smoothed state before a row, ρ and M as in `_backwards`, A = (F, H) and P the filter's covariance, the
    derivative by A is ρ ŝᵀ - M A P and that by a covariance (ρ ρᵀ - M) / 2 (Koopman and Shephard 1992,
    https://doi.org/10.1093/biomet/79.4.823).
    """

    def read(_: StateSpace, mean: Vector, cov: Matrix, rho: Vector, precision: Matrix, r: Vector) -> Any:
        return rho, precision, tuple(plus(m, x) for m, x in zip(mean, matvec(cov, r), strict=True))

    filtered = filter_rows(space, y)
    (r0, n0), (rho, precision, state) = _backwards(space, y, filtered, read)
    moved = product(precision, product((*space.transition, space.observation), filtered.cov))
    noise = plus(along.observation_var, along.measurement_var)
    noises = (*((*row, x) for row, x in zip(along.noise_cov, along.cross_cov, strict=True)), (*along.cross_cov, noise))
    each = plus(
        _inner((*along.transition, along.observation), rho, state, moved), 0.5 * _inner(noises, rho, rho, precision)
    )
    start = plus(dot(along.initial_mean, r0), 0.5 * _inner(along.initial_cov, r0, r0, n0))
    return filtered.log_likelihood, start + jnp.sum(plus(each, times(along.offset, rho[-1])) - y_along * rho[-1])


def _inner(change: Matrix, a: Vector, b: Vector, m: Matrix) -> Entry:
    """Inner product of a change and a bᵀ - m."""
    less = tuple(tuple(x * y - z for y, z in zip(b, row, strict=True)) for x, row in zip(a, m, strict=True))
    return dot(sum(change, ()), sum(less, ()))


def filter_rows(space: StateSpace, y: Array) -> Filtered:
    """Predictions of every row."""
    varying, at = over_rows(space)

    def body(before: Moments, row: tuple[Array, list[Array]]) -> tuple[Moments, Any]:
        after, (innovation, var, gain) = kalman_step(at(row[1]), before, row[0])
        return after, (innovation, var, as_arrays(gain), before)

    innovation, var, gain, before = lax.scan(body, initial_moments(space), (y, varying))[1]
    return Filtered(jnp.sum(row_density(y, innovation, var)), innovation, var, gain, before.mean, before.cov)


def _backwards(
    space: StateSpace, y: Array, filtered: Filtered, read: Callable[..., Any]
) -> tuple[tuple[Vector, Matrix], Any]:
    """The disturbance smoother: one pass back over the rows, from the result of `filter_rows` on them.

    ``read`` takes a row's state space, the predicted state before it, its covariance, ρ and M, and r before the row. ρ
    = (r, u) are the smoothed disturbances of the state after the row and of the row over their covariance, M is their
    precision. With ``C`` the covariance of all rows and ``x`` their distance from the mean, ``u = [C⁻¹x]ᵢ`` and M's
    last entry is ``[C⁻¹]ᵢᵢ``, so that leave-one-out needs no second pass (de Jong 1989,
    https://doi.org/10.1080/01621459.1989.10478870).

    Gives r of the state before the first row and its precision, n and n × n scalars; and what was read of every row.
    """
    varying, at = over_rows(space)
    size = space.size
    weight = jnp.where(jnp.isfinite(y), 1.0 / filtered.innovation_var, 0.0)

    def body(carry: tuple[Vector, Vector], row: Any) -> tuple[tuple[Vector, Vector], Any]:
        r, n = carry[0], symmetric_matrix(carry[1], size)
        entries, scaled, weight, gain, mean, cov = row
        sp, ng = at(entries), matvec(n, gain)
        rho = (*r, scaled - dot(gain, r))
        precision = (*((*x, -k) for x, k in zip(n, ng, strict=True)), (*(-k for k in ng), weight + dot(gain, ng)))
        back = transpose((*sp.transition, sp.observation))
        before = matvec(back, rho)
        carry = as_arrays(before), as_arrays(upper(symmetric_product(back, precision)))
        return carry, read(sp, mean, cov, rho, precision, before)

    start = as_arrays((0.0,) * size), as_arrays((0.0,) * (size * (size + 1) // 2))
    rows = varying, weight * filtered.innovation, weight, filtered.gain, filtered.mean, filtered.cov
    (r, n), found = lax.scan(body, start, rows, reverse=True)
    return (r, symmetric_matrix(n, size)), found


def smooth(space: StateSpace, y: Array, filtered: Filtered | None = None) -> Smoothed:
    """Fixed-interval smoother and leave-one-out conditionals, by the disturbance smoother, in one pass back.

    ``filtered`` is the result of `filter_rows` on the same input, to spare its repetition.
    """
    found = filter_rows(space, y) if filtered is None else filtered
    first, (latent, latent_var, u, d) = _backwards(space, y, found, _latent)
    present = jnp.isfinite(y)
    safe_d = jnp.where(present, d, 1.0)
    error = u / safe_d
    log_density = -0.5 * (LOG_2PI - jnp.log(safe_d) + error**2 * safe_d)
    r0, n0 = (jnp.asarray(x) for x in first)
    moments = initial_moments(space)
    m0, p0 = jnp.asarray(moments.mean), jnp.asarray(moments.cov)
    return Smoothed(
        latent_mean=latent,
        latent_var=latent_var,
        loo_mean=jnp.where(present, jnp.where(present, y, 0.0) - error, latent),
        loo_var=jnp.where(present, 1.0 / safe_d, latent_var + space.measurement_var),
        loo_log_density=jnp.where(present, log_density, jnp.nan),
        initial_mean=m0 + p0 @ r0,
        initial_cov=p0 - p0 @ n0 @ p0,
    )


def _latent(sp: StateSpace, mean: Vector, cov: Matrix, rho: Vector, precision: Matrix, _: Vector) -> tuple[Entry, ...]:
    """Latent reward of a row given all rows, its variance, and the row's disturbance with its precision."""
    ph = matvec(cov, sp.observation)
    # Covariance of the latent reward with the state after the row and with the row.
    joint = zip(matvec((*sp.transition, sp.observation), ph), (*sp.cross_cov, sp.observation_var), strict=True)
    c = tuple(plus(x, s) for x, s in joint)
    latent = plus(plus(dot(sp.observation, mean), sp.offset), dot(c, rho))
    return latent, c[-1] - dot(c, matvec(precision, c)), rho[-1], precision[-1][-1]
