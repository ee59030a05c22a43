"""Exact discretization of the forced damped oscillator and of first-order relaxation, its overdamped limit.

The oscillator is  x'' + a x' + b x = sqrt(q) dW/dt  with ``a = damping / mass``, ``b = stiffness / mass`` and ``x`` the
distance of the mean reward from its fixed point (*Predictable GRPO*, arXiv 2606.30789, reduced model). Everything
over a step ``t`` follows from four scalars: the impulse response ``g`` (x after a unit kick of the velocity), its
integral ``G``, and the integrals of ``g**2`` and ``G**2``.

They are advanced over a step ``t`` by Taylor series at ``t / 2**j``, where these converge to rounding error, and ``j``
exact doublings. Nothing but sums and products is used, so the result is an entire function of its coefficients: no case
is singular, neither critical damping, nor zero stiffness, nor zero or negative damping, and every derivative is right.

Relaxation is  x' + rate x = sqrt(q) dW/dt, an Ornstein-Uhlenbeck process whose mean is the single-exponential
saturation law of arXiv 2507.18014.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_TERMS = 9
_SERIES_RADIUS = 0.06
"""Largest |rate| × step at which the series is exact to rounding in float64."""
_MAX_DOUBLINGS = 40
"""Beyond 2**40 × the radius decay times a step holds nothing of the fast mode at any precision."""


class Impulse(NamedTuple):
    """Impulse response over a step and its integrals; all of the shape of the step.

    Attributes:
        g: Position after a unit velocity kick, steps.
        g_integral: Integral of the position, steps².
        g_squared: Integral of ``g**2``, steps³.
        g_integral_squared: Integral of ``g_integral**2``, steps⁵.
    """

    g: Array
    g_integral: Array
    g_squared: Array
    g_integral_squared: Array


class OscillatorStep(NamedTuple):
    """Transition and noise of ``(x, v, z)`` over a step, ``z`` the integral of ``x`` since its start.

    The transition of (x, v) is ``[[xx, xv], [vx, vv]]``; ``z`` gains ``zx * x + zv * v``. The ``q_*`` are the
    covariances of the noise per unit of diffusion.
    """

    xx: Array
    xv: Array
    vx: Array
    vv: Array
    zx: Array
    zv: Array
    q_xx: Array
    q_xv: Array
    q_vv: Array
    q_zx: Array
    q_zv: Array
    q_zz: Array


def oscillator_step(a: Array, b: Array, t: Array) -> OscillatorStep:
    """Exact transition of the oscillator over a step, and its noise covariance per unit of diffusion.

    ``a`` is damping over mass, 1/step, of any sign; ``b`` stiffness over mass, 1/step², zero where the learning rate
    has decayed to zero; ``t`` the length of the step in optimizer steps, ≥ 0. The three broadcast against each other.
    """
    a, b, t = jnp.broadcast_arrays(a, b, t)
    return _step_from_impulse(a, b, _impulse(a, b, t))


def _step_from_impulse(a: Array, b: Array, m: Impulse) -> OscillatorStep:
    xx = 1.0 - b * m.g_integral
    vv = xx - a * m.g
    half_gg = 0.5 * m.g * m.g
    return OscillatorStep(
        xx=xx,
        xv=m.g,
        vx=-b * m.g,
        vv=vv,
        zx=m.g + a * m.g_integral,
        zv=m.g_integral,
        q_xx=m.g_squared,
        q_xv=half_gg,
        # From the Lyapunov equation: q_xv' = q_vv - b q_xx - a q_xv and q_xv = g²/2.
        q_vv=m.g * vv + b * m.g_squared + a * half_gg,
        q_zx=0.5 * m.g_integral * m.g_integral,
        q_zv=m.g_integral * m.g - m.g_squared,
        q_zz=m.g_integral_squared,
    )


def _impulse_by_doubling(a: Array, b: Array, t: Array) -> Impulse:
    rate = jnp.maximum(jnp.abs(a), jnp.sqrt(jnp.abs(b)))
    ratio = jnp.maximum(jnp.max(rate * t, initial=0.0) / _SERIES_RADIUS, 1.0)
    count = jnp.ceil(jnp.log2(jnp.minimum(ratio, 2.0**_MAX_DOUBLINGS))).astype(jnp.int32)
    h = t * 2.0 ** (-count)
    return lax.fori_loop(0, count, lambda _, m: _doubled(a, b, m), _series(a * h, b * h * h, h))


def _doubled(a: Array, b: Array, m: Impulse) -> Impulse:
    """The four scalars over twice the step."""
    s = _step_from_impulse(a, b, m)
    return Impulse(
        g=m.g * (s.vv + s.xx),
        g_integral=m.g_integral * (1.0 + s.vv) + m.g * s.zx,
        g_squared=m.g_squared * (1.0 + s.xx**2) + s.xv * (2.0 * s.xx * s.q_xv + s.xv * s.q_vv),
        g_integral_squared=2.0 * m.g_integral_squared
        + s.zx * (s.zx * s.q_xx + 2.0 * (s.q_zx + s.zv * s.q_xv))
        + s.zv * (s.zv * s.q_vv + 2.0 * s.q_zv),
    )


def _series(p: Array, q: Array, h: Array) -> Impulse:
    """The four scalars at a step short against every rate, with ``p = a h`` and ``q = b h²``."""
    # g(hs) = h Σ c_n sⁿ⁺¹ solves c_{n+1} (n+2)(n+1) = -p (n+1) c_n - q c_{n-1}.
    c = [jnp.ones_like(p), -0.5 * p]
    for n in range(1, _TERMS - 1):
        c.append(-(p * (n + 1) * c[n] + q * c[n - 1]) / ((n + 2) * (n + 1)))
    d = [cn / (n + 2) for n, cn in enumerate(c)]
    gg = sum(s / (n + 3) for n, s in enumerate(_square(c)))
    gigi = sum(s / (n + 5) for n, s in enumerate(_square(d)))
    return Impulse(h * sum(c), h**2 * sum(d), h**3 * gg, h**5 * gigi)


def _square(terms: list[Array]) -> list[Any]:
    """Coefficients of the square of a power series, truncated to the same number of terms."""
    return [sum(terms[i] * terms[k - i] for i in range(k + 1)) for k in range(len(terms))]


@jax.custom_jvp
def _impulse(a: Array, b: Array, t: Array) -> Impulse:
    """The four scalars over a step, differentiable in reverse mode in the coefficients; the step counts as data.

    The number of doublings depends on the coefficients, and JAX cannot reverse such a loop. Each output is elementwise
    in the coefficients, so its derivatives are found forwards and reverse mode needs only to multiply by them. Higher
    derivatives work through forward-over-reverse (``jax.hessian``).
    """
    return _impulse_by_doubling(a, b, t)


@_impulse.defjvp
def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Any, Any]:
    a, b, t = primals

    def along(*unit: Array) -> tuple[Any, Any]:
        directions = tuple(jnp.full_like(c, u) for c, u in zip((a, b), unit, strict=True))
        return jax.jvp(lambda a, b: _impulse_by_doubling(a, b, t), (a, b), directions)

    units: Any = np.eye(2)
    # Both directions at once: the values are then computed once for both.
    out, slopes = jax.vmap(along, out_axes=(None, 0))(*units)
    return out, Impulse(*(s[0] * tangents[0] + s[1] * tangents[1] for s in slopes))


_POWERS, _NEAR = 18, 0.5
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
    """Exact transition of first-order relaxation over a step, and its noise covariance per unit of diffusion.

    ``rate`` is the relaxation rate, 1/step, of any sign; ``t`` the length of the step in optimizer steps, ≥ 0.
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
    return _entire(x, [(-1.0) ** n / factorial(n + 1) for n in range(_POWERS)], lambda x: -jnp.expm1(-x) / x)


def _mean_square(x: Array) -> Array:
    """Mean of ((1 - exp(-x s)) / x)² over s in [0, 1]."""

    def closed(x: Array) -> Array:
        return (1.0 + 2.0 * jnp.expm1(-x) / x - 0.5 * jnp.expm1(-2.0 * x) / x) / x**2

    return _entire(x, [(-1.0) ** n * (2.0**n - 2.0) / factorial(n + 1) for n in range(2, _POWERS + 2)], closed)


def _entire(x: Array, series: list[float], closed: Callable[[Array], Array]) -> Array:
    """A function without a singularity: its power series near 0, where the closed form divides by 0."""
    near = jnp.abs(x) < _NEAR
    inside = jnp.where(near, x, 0.0)
    outside = jnp.where(near, 1.0, x)
    return jnp.where(near, jnp.polyval(jnp.array(series[::-1]), inside), closed(outside))
