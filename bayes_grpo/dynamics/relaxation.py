"""Exact discretization of first-order relaxation, the oscillator's overdamped limit.

The equation is  x' + rate x = sqrt(q) dW/dt, an Ornstein-Uhlenbeck process whose mean is the single-exponential
saturation law of arXiv 2507.18014.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

_TERMS, _NEAR = 18, 0.5
"""Terms of a power series that are exact to rounding at |rate| × step below this."""


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
    x = rate * t
    integral = t * _mean_decay(x)
    return RelaxationStep(
        xx=1.0 - rate * integral,
        zx=integral,
        q_xx=t * _mean_decay(2.0 * x),
        q_zx=0.5 * integral * integral,
        q_zz=t**3 * _mean_square(x),
    )


def _mean_decay(x: Array) -> Array:
    """Mean of exp(-x s) over s in [0, 1]."""
    return _entire(x, [(-1.0) ** n / factorial(n + 1) for n in range(_TERMS)], lambda x: -jnp.expm1(-x) / x)


def _mean_square(x: Array) -> Array:
    """Mean of ((1 - exp(-x s)) / x)² over s in [0, 1]."""

    def closed(x: Array) -> Array:
        return (1.0 + 2.0 * jnp.expm1(-x) / x - 0.5 * jnp.expm1(-2.0 * x) / x) / x**2

    return _entire(x, [(-1.0) ** n * (2.0**n - 2.0) / factorial(n + 1) for n in range(2, _TERMS + 2)], closed)


def _entire(x: Array, series: list[float], closed: Callable[[Array], Array]) -> Array:
    """A function without a singularity: its power series near 0, where the closed form divides by 0."""
    near = jnp.abs(x) < _NEAR
    inside, outside = jnp.where(near, x, 0.0), jnp.where(near, 1.0, x)
    return jnp.where(near, jnp.polyval(jnp.array(series[::-1]), inside), closed(outside))
