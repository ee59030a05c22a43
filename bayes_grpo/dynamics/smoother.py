"""What all rows together say: the fixed-interval smoother and leave-one-out conditionals, backwards over the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.kalman import Filtered, as_arrays, filter_rows, initial_moments, over_rows
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
        space: The regime on the rows.
        y: Logged rewards, shape (T,); NaN = missing.
        filtered: Result of `filter_rows` on the same input, to spare its repetition.

    Returns:
        Smoothed latent rewards, leave-one-out conditionals and the smoothed initial state.
    """
    f = filter_rows(space, y) if filtered is None else filtered
    varying, at = over_rows(space)
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
        return (as_arrays(r_before), tuple(as_arrays(row) for row in n_before)), out

    start = (as_arrays((0.0,) * n), (as_arrays((0.0,) * n),) * n)
    (r0, n0), (latent, latent_var, u, d) = lax.scan(
        body, start, (y, varying, f.innovation, f.innovation_var, f.gain, f.mean, f.cov), reverse=True
    )
    present = jnp.isfinite(y)
    safe_d = jnp.where(present, d, 1.0)
    error = u / safe_d
    log_density = -0.5 * (LOG_2PI - jnp.log(safe_d) + error**2 * safe_d)
    (m0, p0), n0 = (jnp.asarray(x) for x in initial_moments(space)), jnp.asarray(n0)
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
