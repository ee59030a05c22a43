"""Exact discretisation of first-order relaxation, the oscillator's overdamped limit.

The law is  x' + rate x = sqrt(q) dW/dt, an Ornstein-Uhlenbeck process whose mean is the single-exponential
saturation law of arXiv 2507.18014.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from bayes_grpo.dynamics.doubling import differentiable, double, doublings, square_series

_TERMS = 9


class RelaxationStep(NamedTuple):
    """Transition and noise of ``(x, z)`` over a step, ``z`` the integral of ``x`` since its start.

    ``x`` is multiplied by ``xx`` and ``z`` gains ``zx * x``; the ``q_*`` are the covariances of the noise per unit
    of diffusion. All of the shape of the step.
    """

    xx: Array
    zx: Array
    q_xx: Array
    q_zx: Array
    q_zz: Array


def relaxation_step(rate: Array, t: Array) -> RelaxationStep:
    """Exact transition and noise covariance over a step of first-order relaxation.

    Args:
        rate: Relaxation rate, 1/step; any sign.
        t: Length of the step, in optimizer steps, ≥ 0.

    Returns:
        The step's transition and its noise covariance per unit of diffusion.
    """
    rate, t = jnp.broadcast_arrays(rate, t)
    integral, squared, integral_squared = _moments(rate, t)
    return RelaxationStep(
        xx=1.0 - rate * integral,
        zx=integral,
        q_xx=squared,
        q_zx=0.5 * integral * integral,
        q_zz=integral_squared,
    )


def _moments_by_doubling(rate: Array, t: Array) -> tuple[Array, ...]:
    count = doublings(jnp.max(jnp.abs(rate) * t, initial=0.0))
    h = t * 2.0 ** (-count)

    def doubled(m: tuple[Array, ...]) -> tuple[Array, ...]:
        integral, squared, integral_squared = m
        decay = 1.0 - rate * integral
        return (
            integral * (1.0 + decay),
            squared * (1.0 + decay**2),
            2.0 * integral_squared + integral * integral * (squared + integral),
        )

    p = rate * h
    c = [jnp.ones_like(p)]
    for n in range(1, _TERMS):
        c.append(-p * c[n - 1] / n)
    d = [cn / (n + 1) for n, cn in enumerate(c)]
    series = (
        h * sum(d),
        h * sum(s / (n + 1) for n, s in enumerate(square_series(c))),
        h**3 * sum(s / (n + 3) for n, s in enumerate(square_series(d))),
    )
    return double(count, series, doubled)


_moments = differentiable(_moments_by_doubling)
