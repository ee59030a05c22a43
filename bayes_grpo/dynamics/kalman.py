"""Filter, smoother and sampling of a linear Gaussian state space, each one sequential scan over the rows.

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
    mirrored,
    plus,
    square_root,
    symmetric_product,
    times,
    transpose,
    upper,
)


class Moments(NamedTuple):
    """Mean and covariance of a state of n components, as a loop carries them.

    Attributes:
        mean: n arrays.
        upper: Covariances on and above the diagonal, row by row, n (n + 1) / 2 arrays. A loop that carries each pair of
            mirrored ones takes a third longer, and so does its gradient.
    """

    mean: Vector
    upper: Vector

    @property
    def cov(self) -> Matrix:
        """The whole covariance, n × n arrays."""
        return mirrored(self.upper, len(self.mean))


class Filtered(NamedTuple):
    """One-step predictions of every row.

    Attributes:
        log_likelihood: Log density of all logged rows, scalar.
        innovation: Logged minus predicted, shape (T,); 0 where missing.
        innovation_var: Its variance, shape (T,).
        gain: Gain of the one-step predictor, n arrays of shape (T,); 0 where missing.
        mean: Predicted state before each row, n arrays of shape (T,).
        cov: Its covariance, n × n arrays of shape (T,).
    """

    log_likelihood: Array
    innovation: Array
    innovation_var: Array
    gain: Vector
    mean: Vector
    cov: Matrix


class Smoothed(NamedTuple):
    """What all rows together say.

    Attributes:
        latent_mean: Latent reward of each row given all rows, shape (T,).
        latent_var: Its variance, shape (T,).
        loo_mean: Logged value of each row given all *other* rows, shape (T,).
        loo_var: Its variance, shape (T,).
        loo_log_density: Log density of each logged value given all others, shape (T,); NaN where missing.
        initial_mean: State before the first row given all rows, n scalars.
        initial_cov: Its covariance, n × n scalars.
    """

    latent_mean: Array
    latent_var: Array
    loo_mean: Array
    loo_var: Array
    loo_log_density: Array
    initial_mean: Array
    initial_cov: Array


class StatePath(NamedTuple):
    """One path over the rows, arrays of shape (T,); 0 outside the rows that it was carried over.

    Attributes:
        latent: Latent reward of each row.
        trend: Its expectation from the same first state, without the noise to come.
        shown: What a logged row would show.
    """

    latent: Array
    trend: Array
    shown: Array


def over_rows(space: StateSpace) -> tuple[list[Array], Callable[[list[Array]], StateSpace]]:
    """The entries that vary over rows, to scan over, and a function of a row's entries: the state space there."""
    leaves, treedef = jax.tree.flatten(tuple(space)[2:])
    varies = [getattr(leaf, "ndim", 0) == 1 for leaf in leaves]

    def at(row: list[Array]) -> StateSpace:
        values = iter(row)
        whole = [next(values) if v else leaf for v, leaf in zip(varies, leaves, strict=True)]
        return StateSpace(space.initial_mean, space.initial_cov, *jax.tree.unflatten(treedef, whole))

    return [leaf for v, leaf in zip(varies, leaves, strict=True) if v], at


def initial_moments(space: StateSpace) -> Moments:
    """Moments of the state before the first row."""
    return Moments(as_arrays(space.initial_mean), as_arrays(upper(space.initial_cov)))


def as_arrays(entries: Vector) -> Vector:
    """Entries as arrays, as a loop carries them."""
    return tuple(jnp.asarray(x, float) for x in entries)


def kalman_step(space: StateSpace, before: Moments, y: Array) -> tuple[Moments, Any]:
    """One row: from the prediction of the state before it to that of the state after it.

    Args:
        space: The state space on this row, see `over_rows`.
        before: Moments of the state before the row.
        y: Logged reward, a scalar; NaN = missing.

    Returns:
        Moments of the state after the row; and the row's innovation, its variance, the gain and the log density, which
        is 0 where the value is missing.
    """
    present, n = jnp.isfinite(y), space.size
    ph = matvec(before.cov, space.observation)
    var = plus(plus(dot(space.observation, ph), space.observation_var), space.measurement_var)
    var = jnp.where(present, var, 1.0)
    predicted = plus(dot(space.observation, before.mean), space.offset)
    innovation = jnp.where(present, jnp.where(present, y, 0.0) - predicted, 0.0)
    weight = jnp.where(present, 1.0 / var, 0.0)
    cross = tuple(plus(c, s) for c, s in zip(matvec(space.transition, ph), space.cross_cov, strict=True))
    gain = tuple(times(c, weight) for c in cross)
    moved = matvec(space.transition, before.mean)
    mean = tuple(plus(m, times(k, innovation)) for m, k in zip(moved, gain, strict=True))
    spread = symmetric_product(space.transition, before.cov)
    cov = tuple(
        plus(plus(spread[i][j], space.noise_cov[i][j]), -times(cross[i], gain[j]))
        for i in range(n)
        for j in range(i, n)
    )
    density = jnp.where(present, -0.5 * (jnp.log(var) + innovation**2 / var + LOG_2PI), 0.0)
    return Moments(as_arrays(mean), as_arrays(cov)), (innovation, var, gain, density)


def _summed(at: Callable[[list[Array]], StateSpace]) -> Any:
    """One row of the log density's sum: the body of a scan over (values, entries that vary)."""

    def body(carry: tuple[Moments, Array], row: tuple[Array, list[Array]]) -> tuple[tuple[Moments, Array], None]:
        after, (*_, density) = kalman_step(at(row[1]), carry[0], row[0])
        return (after, carry[1] + density), None

    return body


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """Log density of the logged rows, a scalar; on an accelerator by `bayes_grpo.dynamics.associative`."""
    if not accelerated():
        return sequential_log_likelihood(space, y)
    from bayes_grpo.dynamics import associative

    return associative.log_likelihood(space, y)


def sequential_log_likelihood(space: StateSpace, y: Array) -> Array:
    """The same by one pass over the rows."""
    varying, at = over_rows(space)
    return lax.scan(_summed(at), (initial_moments(space), jnp.zeros(())), (y, varying))[0][1]


_CHUNK = 32
"""Rows of a chunk, where the number of rows is a multiple of it."""


def chunked_log_likelihood(space: StateSpace, y: Array) -> Array:
    """`log_likelihood` for many draws at once: it stops behind the last logged row, so that padding costs little."""
    size = len(y)
    varying, at = over_rows(space)
    length = math.gcd(_CHUNK, size) if size % 8 == 0 else size
    needed = -(-jnp.max(jnp.where(jnp.isfinite(y), jnp.arange(1, size + 1), 0)) // length)

    def chunk(i: Any, carry: Any) -> Any:
        value, *entries = (lax.dynamic_slice_in_dim(x, i * length, length) for x in (y, *varying))
        return lax.scan(_summed(at), carry, (value, entries))[0]

    return lax.fori_loop(0, needed, chunk, (initial_moments(space), jnp.zeros(())))[1]


def filter_rows(space: StateSpace, y: Array) -> Filtered:
    """Predictions of every row."""
    varying, at = over_rows(space)

    def body(before: Moments, row: tuple[Array, list[Array]]) -> tuple[Moments, Any]:
        after, (innovation, var, gain, density) = kalman_step(at(row[1]), before, row[0])
        return after, (density, innovation, var, as_arrays(gain), before)

    density, innovation, var, gain, before = lax.scan(body, initial_moments(space), (y, varying))[1]
    return Filtered(jnp.sum(density), innovation, var, gain, before.mean, before.cov)


def smooth(space: StateSpace, y: Array, filtered: Filtered | None = None) -> Smoothed:
    """Fixed-interval smoother and leave-one-out conditionals, by the disturbance smoother.

    With ``u`` the smoothed disturbance of a row's innovation and ``D`` its variance, ``u = [C⁻¹r]ᵢ`` and
    ``D = [C⁻¹]ᵢᵢ`` for the covariance ``C`` of all rows, so that leave-one-out needs no second pass
    (de Jong 1989, https://doi.org/10.1080/01621459.1989.10478870).

    Args:
        space: The regime on the rows.
        y: Logged rewards, shape (T,); NaN = missing.
        filtered: Result of `filter_rows` on the same input, to spare its repetition.

    Returns:
        Smoothed latent rewards, leave-one-out conditionals and the smoothed initial state.
    """
    f = filter_rows(space, y) if filtered is None else filtered
    varying, at = over_rows(space)
    n = space.size

    def body(carry: tuple[Vector, Vector], row: Any) -> tuple[tuple[Vector, Vector], Any]:
        r, big_n = carry[0], mirrored(carry[1], n)
        value, entries, innovation, var, gain, mean, cov = row
        sp = at(entries)
        present = jnp.isfinite(value)
        weight = jnp.where(present, 1.0 / var, 0.0)
        ng = matvec(big_n, gain)
        u = weight * innovation - dot(gain, r)
        d = weight + dot(gain, ng)
        # Backward recursion with L = F - K H: r ← Hᵀu' + Lᵀr written as Fᵀr + H u, likewise for N.
        h, fr = sp.observation, matvec(transpose(sp.transition), r)
        r_before = tuple(plus(a, times(x, u)) for a, x in zip(fr, h, strict=True))
        fnf = symmetric_product(transpose(sp.transition), big_n)
        fng = matvec(transpose(sp.transition), ng)
        n_before = tuple(
            plus(fnf[i][j], plus(times(times(h[i], h[j]), d), -plus(times(h[i], fng[j]), times(fng[i], h[j]))))
            for i in range(n)
            for j in range(i, n)
        )
        # Latent reward of the row: prior prediction plus its covariance with (r, u) of the row.
        with_state = matvec(cov, r_before)
        latent = plus(dot(sp.observation, mean), sp.offset)
        latent = plus(latent, dot(sp.observation, with_state))
        latent = plus(latent, plus(times(sp.observation_var, u), dot(sp.cross_cov, r)))
        latent_var = _latent_variance(sp, cov, big_n, ng, d)
        return (as_arrays(r_before), as_arrays(n_before)), (latent, latent_var, u, d)

    start = as_arrays((0.0,) * n), as_arrays((0.0,) * (n * (n + 1) // 2))
    (r0, n0), (latent, latent_var, u, d) = lax.scan(
        body, start, (y, varying, f.innovation, f.innovation_var, f.gain, f.mean, f.cov), reverse=True
    )
    present = jnp.isfinite(y)
    safe_d = jnp.where(present, d, 1.0)
    error = u / safe_d
    log_density = -0.5 * (LOG_2PI - jnp.log(safe_d) + error**2 * safe_d)
    first = initial_moments(space)
    m0, p0, n0 = jnp.asarray(first.mean), jnp.asarray(first.cov), jnp.asarray(mirrored(n0, n))
    return Smoothed(
        latent_mean=latent,
        latent_var=latent_var,
        loo_mean=jnp.where(present, jnp.where(present, y, 0.0) - error, latent),
        loo_var=jnp.where(present, 1.0 / safe_d, latent_var + space.measurement_var),
        loo_log_density=jnp.where(present, log_density, jnp.nan),
        initial_mean=m0 + p0 @ jnp.asarray(r0),
        initial_cov=p0 - p0 @ n0 @ p0,
    )


def _latent_variance(sp: StateSpace, cov: Matrix, big_n: Matrix, ng: Vector, d: Entry) -> Entry:
    """Variance of a row's latent reward given all rows.

    The latent reward is correlated with the row's innovation by ``c = H P Hᵀ + R`` and with the state after the row,
    not counting what the innovation carries, by ``a = F P Hᵀ + S``; the smoother's (r, u) have the precision
    [[N, -N K], [-Kᵀ N, D]].
    """
    ph = matvec(cov, sp.observation)
    c = plus(dot(sp.observation, ph), sp.observation_var)
    a = tuple(plus(x, s) for x, s in zip(matvec(sp.transition, ph), sp.cross_cov, strict=True))
    return c - (dot(a, matvec(big_n, a)) + d * c**2 - 2.0 * c * dot(a, ng))


def draw_rows(space: StateSpace, y: Array, noise: Array) -> tuple[Array, Array]:
    """Rows drawn from the regime, each given those before it, and the log density of the logged rows.

    Gains and variances do not depend on the values, so one pass serves both runs.

    From standard normal numbers of shape (T,): drawn rows, shape (T,), NaN where the log has none; and
    `log_likelihood`.
    """
    varying, at = over_rows(space)

    def body(carry: tuple[Moments, Vector], row: Any) -> tuple[tuple[Moments, Vector], tuple[Array, Array]]:
        value, z, entries = row
        here = at(entries)
        after, (_, var, gain, density) = kalman_step(here, carry[0], value)
        surprise = jnp.sqrt(var) * z
        drawn = plus(dot(here.observation, carry[1]), here.offset) + surprise
        moved = matvec(here.transition, carry[1])
        drawn_mean = tuple(plus(m, k * surprise) for m, k in zip(moved, gain, strict=True))
        return (after, drawn_mean), (jnp.where(jnp.isfinite(value), drawn, jnp.nan), density)

    start = initial_moments(space)
    drawn, density = lax.scan(body, (start, start.mean), (y, noise, varying))[1]
    return drawn, jnp.sum(density)


def state_before(space: StateSpace, y: Array, first: Array, noise: Vector) -> Vector:
    """Draws the state before a row given all rows before it, n entries.

    Args:
        space: The regime on the rows.
        y: Logged rewards, shape (T,); NaN = missing.
        first: Index of the row, an integer scalar, so that it may change from call to call of a compiled program.
        noise: n standard normal numbers.
    """
    varying, at = over_rows(space)

    def body(t: Any, before: Moments) -> Moments:
        return kalman_step(at([x[t] for x in varying]), before, y[t])[0]

    found = lax.fori_loop(0, first, body, initial_moments(space))
    return drawn_state(found.mean, found.cov, noise)


def drawn_state(mean: Vector, cov: Matrix, noise: Vector) -> Vector:
    """A state with these moments, from n standard normal numbers; n entries."""
    return tuple(m + dot(row, noise) for m, row in zip(mean, square_root(cov), strict=True))


def propagate(space: StateSpace, start: Vector, first: Array, last: Array, noise: Array) -> StatePath:
    """Carries a state over rows with their noise.

    Args:
        space: The regime.
        start: State before the first of them, n entries.
        first: Index of the first of them, an integer scalar.
        last: Index behind the last of them, an integer scalar.
        noise: Standard normal numbers, those of the state and of the measurement, shape (T, n + 2).
    """
    n, (varying, at) = space.size, over_rows(space)

    def step(t: Any, carry: tuple[Vector, Vector, StatePath]) -> tuple[Vector, Vector, StatePath]:
        state, expected, path = carry
        here = at([x[t] for x in varying])
        z = tuple(noise[t, j] for j in range(n + 2))
        joint = tuple((*here.noise_cov[i], here.cross_cov[i]) for i in range(n))
        root = square_root((*joint, (*here.cross_cov, here.observation_var)))
        kick = tuple(dot(row, z[: n + 1]) for row in root)
        latent = plus(plus(dot(here.observation, state), here.offset), kick[n])
        trend = plus(dot(here.observation, expected), here.offset)
        shown = latent + jnp.sqrt(jnp.asarray(here.measurement_var, float)) * z[n + 1]
        path = StatePath(*(x.at[t].set(v) for x, v in zip(path, (latent, trend, shown), strict=True)))
        moved = tuple(plus(m, k) for m, k in zip(matvec(here.transition, state), kick[:n], strict=True))
        return as_arrays(moved), as_arrays(matvec(here.transition, expected)), path

    empty = StatePath(*(jnp.zeros(len(noise)) for _ in range(3)))
    return lax.fori_loop(first, last, step, (as_arrays(start), as_arrays(start), empty))[2]


def mean_path(space: StateSpace, initial: Array, rows: int) -> Array:
    """Latent reward of every one of T rows without noise, shape (T,), from a state of shape (n,) before the first."""
    varying, at = over_rows(space)

    def body(state: Vector, entries: list[Array]) -> tuple[Vector, Array]:
        here = at(entries)
        reward = plus(dot(here.observation, state), here.offset)
        return as_arrays(matvec(here.transition, state)), jnp.asarray(reward, float)

    return lax.scan(body, tuple(initial[i] for i in range(space.size)), varying, length=rows)[1]
