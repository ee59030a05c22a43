"""Kalman filter and what follows from it, as one sequential scan over the rows (the fast way on a CPU).

The recursions run on scalars, not on small matrices: XLA fuses them into one loop body. A row whose logged value
is NaN counts as missing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.state_space import (
    LOG_2PI,
    Entry,
    Matrix,
    StateSpace,
    Vector,
    dot,
    matvec,
    plus,
    symmetric_product,
    times,
    transpose,
)


class Filtered(NamedTuple):
    """One-step predictions of every row and the state after the last one.

    Attributes:
        log_likelihood: Log density of all logged rows, scalar.
        innovation: Logged minus predicted, shape (T,); 0 where missing.
        innovation_var: Its variance, shape (T,).
        gain: Gain of the one-step predictor, n arrays of shape (T,); 0 where missing.
        mean: Predicted state before each row, n arrays of shape (T,).
        cov: Its covariance, n × n arrays of shape (T,).
        last_mean: State after the last row, n scalars.
        last_cov: Its covariance, n × n scalars.
    """

    log_likelihood: Array
    innovation: Array
    innovation_var: Array
    gain: Vector
    mean: Vector
    cov: Matrix
    last_mean: Vector
    last_cov: Matrix


def _split(tree: Any) -> tuple[list[Array], Any]:
    """Separates the entries that vary over rows, to scan over, from those that hold for every row."""
    leaves, treedef = jax.tree.flatten(tree)
    varying = [leaf for leaf in leaves if getattr(leaf, "ndim", 0) == 1]

    def join(row: list[Array]) -> Any:
        values = iter(row)
        return jax.tree.unflatten(treedef, [next(values) if getattr(leaf, "ndim", 0) == 1 else leaf for leaf in leaves])

    return varying, join


def advance(space: StateSpace, mean: Vector, cov: Matrix, y: Array) -> tuple[Vector, Matrix, Any]:
    """One row: from the prediction of the state before it to that of the state after it.

    Args:
        space: The law on this row, see `at_row`.
        mean: Predicted state before the row, n entries.
        cov: Its covariance, n × n entries.
        y: Logged reward, a scalar; NaN = missing.

    Returns:
        Mean and covariance of the state after the row; and the row's innovation, its variance, whether there is a
        value, and the gain.
    """
    present = jnp.isfinite(y)
    ph = matvec(cov, space.observation)
    var = plus(plus(dot(space.observation, ph), space.observation_var), space.measurement_var)
    var = jnp.where(present, var, 1.0)
    predicted = plus(dot(space.observation, mean), space.offset)
    innovation = jnp.where(present, jnp.where(present, y, 0.0) - predicted, 0.0)
    weight = jnp.where(present, 1.0 / var, 0.0)
    cross = tuple(plus(c, s) for c, s in zip(matvec(space.transition, ph), space.cross_cov, strict=True))
    gain = tuple(times(c, weight) for c in cross)
    moved = matvec(space.transition, mean)
    mean = tuple(plus(m, times(k, innovation)) for m, k in zip(moved, gain, strict=True))
    spread = symmetric_product(space.transition, cov)
    n = len(mean)
    cov = tuple(
        tuple(
            plus(plus(spread[i][j], space.noise_cov[i][j]), -times(cross[min(i, j)], gain[max(i, j)])) for j in range(n)
        )
        for i in range(n)
    )
    return mean, cov, (innovation, var, present, gain)


def initial_moments(space: StateSpace) -> tuple[Vector, Matrix]:
    """Mean and covariance of the state before the first row, n and n × n arrays."""
    mean = tuple(jnp.asarray(m, float) for m in space.initial_mean)
    cov = tuple(tuple(jnp.asarray(c, float) for c in row) for row in space.initial_cov)
    return mean, cov


def at_row(space: StateSpace, t: Any) -> StateSpace:
    """The law on one row."""
    varying, at = _rows(space)
    return at([x[t] for x in varying])


def _rows(space: StateSpace) -> tuple[list[Array], Any]:
    varying, join = _split(
        (space.transition, space.noise_cov, space.observation, space.cross_cov,
         space.observation_var, space.offset, space.measurement_var)
    )  # fmt: skip

    def at(row: list[Array]) -> StateSpace:
        return StateSpace(space.initial_mean, space.initial_cov, *join(row))

    return varying, at


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """Log density of the logged rows under the law, by the filter.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.

    Returns:
        The log density, a scalar.
    """
    varying, at = _rows(space)

    @jax.checkpoint  # recomputing a row costs less than storing its intermediate values for the gradient
    def body(carry: Any, row: Any) -> tuple[Any, None]:
        mean, cov, total = carry
        value, entries = row
        mean, cov, (innovation, var, present, _) = advance(at(entries), mean, cov, value)
        term = jnp.where(present, jnp.log(var) + innovation**2 / var + LOG_2PI, 0.0)
        return (mean, cov, total - 0.5 * term), None

    mean, cov = initial_moments(space)
    (_, _, total), _ = lax.scan(body, (mean, cov, jnp.zeros(())), (y, varying))
    return total


_STRETCH = 32
"""Rows of a stretch of `log_density`, where the number of rows is a multiple of it."""


def log_density(space: StateSpace, y: Array) -> Array:
    """`log_likelihood` for many draws at once and without a gradient.

    It goes through the rows in stretches and stops behind the last logged one, so that rows may be padded to one of
    few lengths at little cost.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.

    Returns:
        The log density, a scalar.
    """
    varying, at = _rows(space)
    rows = y.shape[0]
    length = math.gcd(_STRETCH, rows) if rows % 8 == 0 else rows
    last = jnp.max(jnp.where(jnp.isfinite(y), jnp.arange(1, rows + 1), 0))

    def body(carry: Any, row: Any) -> tuple[Any, None]:
        mean, cov, total = carry
        value, entries = row
        mean, cov, (innovation, var, present, _) = advance(at(entries), mean, cov, value)
        term = jnp.where(present, jnp.log(var) + innovation**2 / var + LOG_2PI, 0.0)
        return (mean, cov, total - 0.5 * term), None

    def stretch(i: Any, carry: Any) -> Any:
        value, *entries = (lax.dynamic_slice_in_dim(x, i * length, length) for x in (y, *varying))
        return lax.scan(body, carry, (value, entries))[0]

    mean, cov = initial_moments(space)
    return lax.fori_loop(0, -(-last // length), stretch, (mean, cov, jnp.zeros(())))[2]


def filter_rows(space: StateSpace, y: Array) -> Filtered:
    """Runs the filter and keeps what smoother, leave-one-out and forecast need.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.

    Returns:
        Predictions of every row and the state after the last one.
    """
    varying, at = _rows(space)

    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        mean, cov, total = carry
        value, entries = row
        after, after_cov, (innovation, var, present, gain) = advance(at(entries), mean, cov, value)
        term = jnp.where(present, jnp.log(var) + innovation**2 / var + LOG_2PI, 0.0)
        gain = tuple(jnp.asarray(k, float) for k in gain)
        return (after, after_cov, total - 0.5 * term), (innovation, var, gain, mean, cov)

    mean, cov = initial_moments(space)
    (last_mean, last_cov, total), out = lax.scan(body, (mean, cov, jnp.zeros(())), (y, varying))
    innovation, var, gain, means, covs = out
    return Filtered(total, innovation, var, gain, means, covs, last_mean, last_cov)


def row_densities(space: StateSpace, y: Array, scored: Array) -> Array:
    """Log density of values given the logged rows before each.

    Where ``y`` is missing from some row on, every later density is that of a row some way ahead by itself.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.
        scored: Values whose densities are wanted, shape (T,); NaN = none.

    Returns:
        Shape (T,); 0 where there is nothing to score.
    """
    varying, at = _rows(space)

    def body(carry: Any, row: Any) -> tuple[Any, Array]:
        value, wanted, entries = row
        here = at(entries)
        mean, cov = carry
        var = plus(dot(here.observation, matvec(cov, here.observation)), here.observation_var)
        var = plus(var, here.measurement_var)
        error = jnp.where(jnp.isfinite(wanted), wanted, 0.0) - plus(dot(here.observation, mean), here.offset)
        density = -0.5 * (jnp.log(var) + error**2 / var + LOG_2PI)
        mean, cov, _ = advance(here, mean, cov, value)
        return (mean, cov), jnp.where(jnp.isfinite(wanted), density, 0.0)

    return lax.scan(body, initial_moments(space), (y, scored, varying))[1]


def draw_rows(space: StateSpace, y: Array, noise: Array) -> tuple[Array, Array, Array]:
    """Rows drawn from the law, each given those before it, and the two parts of the logged rows' log density.

    Gains and variances do not depend on the values, so one pass serves both runs.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.
        noise: Standard normal numbers, shape (T,).

    Returns:
        Drawn rows, shape (T,), NaN where the log has none; −½ log |2πC| of the rows' covariance C; and −½ rᵀC⁻¹r of
        the logged rows' distances r from the law's mean. The sum of the last two is `log_likelihood`.
    """
    varying, at = _rows(space)

    def body(carry: Any, row: Any) -> tuple[Any, Array]:
        mean, drawn_mean, cov, volume, misfit = carry
        value, z, entries = row
        here = at(entries)
        mean, cov, (innovation, var, present, gain) = advance(here, mean, cov, value)
        surprise = jnp.sqrt(var) * z
        drawn = plus(dot(here.observation, drawn_mean), here.offset) + surprise
        drawn_mean = tuple(
            plus(m, k * surprise) for m, k in zip(matvec(here.transition, drawn_mean), gain, strict=True)
        )
        volume = volume - jnp.where(present, 0.5 * (jnp.log(var) + LOG_2PI), 0.0)
        misfit = misfit - jnp.where(present, 0.5 * innovation**2 / var, 0.0)
        return (mean, drawn_mean, cov, volume, misfit), jnp.where(present, drawn, jnp.nan)

    mean, cov = initial_moments(space)
    (*_, volume, misfit), drawn = lax.scan(body, (mean, mean, cov, jnp.zeros(()), jnp.zeros(())), (y, noise, varying))
    return drawn, volume, misfit


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


def smooth(space: StateSpace, y: Array, filtered: Filtered | None = None) -> Smoothed:
    """Fixed-interval smoother and leave-one-out conditionals, by the disturbance smoother.

    With ``u`` the smoothed disturbance of a row's innovation and ``D`` its variance, ``u = [C⁻¹r]ᵢ`` and
    ``D = [C⁻¹]ᵢᵢ`` for the covariance ``C`` of all rows, so that leave-one-out needs no second pass
    (de Jong 1989, https://doi.org/10.1080/01621459.1989.10478870).

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.
        filtered: Result of `filter_rows` on the same input, to spare its repetition.

    Returns:
        Smoothed latent rewards, leave-one-out conditionals and the smoothed initial state.
    """
    f = filter_rows(space, y) if filtered is None else filtered
    varying, at = _rows(space)
    n = space.size

    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        r, big_n = carry
        value, entries, innovation, var, gain, mean, cov = row
        sp = at(entries)
        present = jnp.isfinite(value)
        weight = jnp.where(present, 1.0 / var, 0.0)
        ng = matvec(big_n, gain)
        u = weight * innovation - dot(gain, r)
        d = weight + dot(gain, ng)
        # Backward recursion with L = F - K H: r ← Hᵀu' + Lᵀr written as Fᵀr + H u, likewise for N.
        fr = matvec(transpose(sp.transition), r)
        r_before = tuple(plus(a, times(h, u)) for a, h in zip(fr, sp.observation, strict=True))
        fnf = symmetric_product(transpose(sp.transition), big_n)
        fng = matvec(transpose(sp.transition), ng)
        n_before = tuple(
            tuple(
                plus(
                    fnf[i][j],
                    plus(
                        times(times(sp.observation[i], sp.observation[j]), d),
                        -plus(times(sp.observation[i], fng[j]), times(fng[i], sp.observation[j])),
                    ),
                )
                for j in range(n)
            )
            for i in range(n)
        )
        # Latent reward of the row: prior prediction plus its covariance with (r, u) of the row.
        with_state = matvec(cov, r_before)
        latent = plus(dot(sp.observation, mean), sp.offset)
        latent = plus(latent, dot(sp.observation, with_state))
        latent = plus(latent, plus(times(sp.observation_var, u), dot(sp.cross_cov, r)))
        latent_var = _latent_variance(sp, cov, big_n, ng, d)
        out = (latent, latent_var, u, d)
        r_before = tuple(jnp.asarray(x, float) for x in r_before)
        n_before = tuple(tuple(jnp.asarray(x, float) for x in row) for row in n_before)
        return (r_before, n_before), out

    zero = jnp.zeros(())
    start = (tuple(zero for _ in range(n)), tuple(tuple(zero for _ in range(n)) for _ in range(n)))
    (r0, n0), (latent, latent_var, u, d) = lax.scan(
        body, start, (y, varying, f.innovation, f.innovation_var, f.gain, f.mean, f.cov), reverse=True
    )
    present = jnp.isfinite(y)
    safe_d = jnp.where(present, d, 1.0)
    error = u / safe_d
    log_density = -0.5 * (LOG_2PI - jnp.log(safe_d) + error**2 * safe_d)
    p0 = jnp.stack([jnp.stack(list(row)) for row in initial_moments(space)[1]])
    m0 = jnp.stack(list(initial_moments(space)[0]))
    r0, n0 = jnp.stack(r0), jnp.stack([jnp.stack(row) for row in n0])
    return Smoothed(
        latent_mean=latent,
        latent_var=latent_var,
        loo_mean=jnp.where(present, jnp.where(present, y, 0.0) - error, latent),
        loo_var=jnp.where(present, 1.0 / safe_d, latent_var + space.measurement_var),
        loo_log_density=jnp.where(present, log_density, jnp.nan),
        initial_mean=m0 + p0 @ r0,
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


def mean_path(space: StateSpace, initial: Array, rows: int) -> Array:
    """Latent reward of every row if nothing forced the law, from a given initial state.

    Args:
        space: The law on the rows.
        initial: State before the first row, shape (n,).
        rows: Number of rows T.

    Returns:
        The law's mean trajectory, shape (T,).
    """
    varying, at = _rows(space)

    def body(state: Any, entries: Any) -> tuple[Any, Array]:
        sp = at(entries)
        reward = plus(dot(sp.observation, state), sp.offset)
        after = tuple(jnp.asarray(x, float) for x in matvec(sp.transition, state))
        return after, jnp.asarray(reward, float)

    return lax.scan(body, tuple(initial[i] for i in range(space.size)), varying, length=rows)[1]
