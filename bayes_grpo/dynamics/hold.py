"""The hold model step by step: gradient frozen at the sampling policy, which is renewed every S steps.

    x[t+1] = x[t] + μ (x[t] − x[t−1]) − g [(1 − e) x[t] + e h[t]] + ξ[t],   h[t] = x at the last refresh

An exact linear map, with no continuum between the steps, so that it holds at and beyond the stability threshold.
The completions of a step come from the sampling policy, so a logged train reward is that of ``h``, an evaluation's
that of ``x``. A row's map is composed from its steps; its derivatives are found forwards.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.doubling import differentiable


class HoldRow(NamedTuple):
    """Map and noise of the state (x, change of x, h) over a row; noise per unit of step noise variance.

    Attributes:
        transition: 3 × 3 entries over the rows, row by row, each of shape (T,).
        noise_cov: 3 × 3 entries, symmetric.
        observation: 3 entries, acting on the state before the row.
        cross_cov: Covariance of state noise and row noise, 3 entries.
        observation_var: Noise of the row's mean.
    """

    transition: tuple[tuple[Array, ...], ...]
    noise_cov: tuple[tuple[Array, ...], ...]
    observation: tuple[Array, ...]
    cross_cov: tuple[Array, ...]
    observation_var: Array


def hold_rows(
    gain: Array, exposure: Array, first: Array, steps: Array, window: Array, momentum: Array, refresh: Array
) -> HoldRow:
    """Composes the steps of every row.

    Args:
        gain: g of each row, shape (T,).
        exposure: Lag exposure e in [0, 1], scalar.
        first: Steps done in the run when the row's way begins, whole numbers, shape (T,).
        steps: Steps on the row's way (gap and window), whole numbers, shape (T,).
        window: Steps averaged in the row, whole numbers, shape (T,); 0 = an evaluation of x at its end.
        momentum: μ, scalar.
        refresh: S, a whole number, scalar.

    Returns:
        Maps and noises of all rows.
    """
    gain, exposure = jnp.broadcast_arrays(gain, exposure)
    data = jnp.stack([jnp.broadcast_to(d, gain.shape) for d in (first, steps, window, momentum, refresh)])
    out = _composed(gain, exposure, data)
    f, q, h, s, r = out[:9], out[9:15], out[15:18], out[18:21], out[21]
    pairs = {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 1): 3, (1, 2): 4, (2, 2): 5}
    return HoldRow(
        transition=tuple(tuple(f[3 * i + j] for j in range(3)) for i in range(3)),
        noise_cov=tuple(tuple(q[pairs[min(i, j), max(i, j)]] for j in range(3)) for i in range(3)),
        observation=tuple(h),
        cross_cov=tuple(s),
        observation_var=r,
    )


def _compose(gain: Array, exposure: Array, data: Array) -> tuple[Array, ...]:
    first, steps, window, momentum, refresh = data
    zero, one = jnp.zeros_like(gain), jnp.ones_like(gain)
    # Rows of the step's matrix on (x, change, h): change' = -g (1 - e) x + μ change - g e h, x' = x + change'.
    pull = (-gain * (1.0 - exposure), momentum * one, -gain * exposure)

    def step(j: int, carry: tuple[tuple[Array, ...], ...]) -> tuple[tuple[Array, ...], ...]:
        before = carry
        m, q, acc, c, z = carry[:3], carry[3:6], carry[6], carry[7], carry[8][0]
        renew = jnp.equal(jnp.mod(first + j, refresh), 0)

        def renewed(rows: tuple[tuple[Array, ...], ...]) -> tuple[tuple[Array, ...], ...]:
            return (rows[0], rows[1], tuple(jnp.where(renew, x, h) for x, h in zip(rows[0], rows[2], strict=True)))

        m = renewed(m)
        q = tuple(zip(*renewed(tuple(zip(*renewed(q), strict=True))), strict=True))
        c = (c[0], c[1], jnp.where(renew, c[0], c[2]))
        seen = j >= steps - window
        acc = tuple(a + jnp.where(seen, h, 0.0) for a, h in zip(acc, m[2], strict=True))
        z = z + jnp.where(seen, 2.0 * c[2] + q[2][2], 0.0)
        c = tuple(ci + jnp.where(seen, qi[2], 0.0) for ci, qi in zip(c, q, strict=True))

        def moved(rows: tuple[tuple[Array, ...], ...]) -> tuple[tuple[Array, ...], ...]:
            change = tuple(
                sum((p * r for p, r in zip(pull, col, strict=True)), zero) for col in zip(*rows, strict=True)
            )
            return (tuple(x + d for x, d in zip(rows[0], change, strict=True)), change, rows[2])

        m = moved(m)
        q = moved(tuple(zip(*moved(q), strict=True)))
        # The step's noise enters the change and, through it, x.
        q = tuple(tuple(v + (1.0 if i < 2 and k < 2 else 0.0) for k, v in enumerate(row)) for i, row in enumerate(q))
        change = sum((p * v for p, v in zip(pull, c, strict=True)), zero)
        c = (c[0] + change, change, c[2])
        after = (*m, *q, acc, c, (z,))
        active = j < steps
        return tuple(
            tuple(jnp.where(active, a, b) for a, b in zip(x, y, strict=True))
            for x, y in zip(after, before, strict=True)
        )

    identity = ((one, zero, zero), (zero, one, zero), (zero, zero, one))
    nothing = (zero, zero, zero)
    start = (*identity, nothing, nothing, nothing, nothing, nothing, (zero,))
    end = lax.fori_loop(0, jnp.max(steps).astype(int), step, start)
    m, q, acc, c, z = end[:3], end[3:6], end[6], end[7], end[8][0]
    # A train row is the mean over its window; an evaluation sees x at the end of its way.
    instant, width = window == 0, jnp.where(window == 0, 1.0, window)
    observation = tuple(jnp.where(instant, x, a / width) for x, a in zip(m[0], acc, strict=True))
    cross = tuple(jnp.where(instant, qi[0], ci / width) for qi, ci in zip(q, c, strict=True))
    variance = jnp.where(instant, q[0][0], z / width**2)
    flat_q = (q[0][0], q[0][1], q[0][2], q[1][1], q[1][2], q[2][2])
    return (*(v for row in m for v in row), *flat_q, *observation, *cross, variance)


_composed = differentiable(_compose)
