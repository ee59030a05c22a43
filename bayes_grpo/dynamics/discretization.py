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

from bayes_grpo.dynamics.state_space import Entry, Matrix, Vector, symmetric_matrix, upper

_TERMS = 9
_SERIES_RADIUS = 0.06
"""Largest |rate| × step at which the series is exact to rounding in float64."""
_MAX_DOUBLINGS = 40
"""Beyond 2**40 × the radius decay times a step holds nothing of the fast mode at any precision."""


class Impulse(NamedTuple):
    """Impulse response over a step and its integrals; all of the shape of the step.

    ``g`` is the position after a unit velocity kick, steps; its integral has the unit steps², the integrals of ``g**2``
    and of ``g_integral**2`` steps³ and steps⁵.
    """

    g: Array
    g_integral: Array
    g_squared: Array
    g_integral_squared: Array


class WindowRow(NamedTuple):
    """A linear process over a window, per state before it; its first component is observed.

    Attributes:
        transition: State after the window, n × n.
        observation: Integral of the first component over the window, n; of a row its mean.
        noise_cov: Covariance of the noise of the state after it, n × n.
        cross_cov: Its covariance with the noise of the integral or mean, n.
        observation_var: Variance of the noise of the integral or mean.
    """

    transition: Matrix
    observation: Vector
    noise_cov: Matrix
    cross_cov: Vector
    observation_var: Entry

    def forced(self, diffusion: Array) -> WindowRow:
        """The same under a diffusion, from its noise per unit of diffusion."""
        once = tuple(diffusion * x for x in upper(self.noise_cov))
        cross = tuple(diffusion * x for x in self.cross_cov)
        noise_cov = symmetric_matrix(once, len(cross))
        return WindowRow(*self[:2], noise_cov, cross, diffusion * self.observation_var)


def oscillator_step(a: Array, b: Array, t: Array) -> WindowRow:
    """Exact transition of the oscillator's (position, velocity) over a step, and its noise per unit of diffusion.

    ``a`` is damping over mass, 1/step, of any sign; ``b`` stiffness over mass, 1/step², zero where the learning rate
    has decayed to zero; ``t`` the length of the step in optimizer steps, ≥ 0. The three broadcast against each other.
    """
    a, b, t = jnp.broadcast_arrays(a, b, t)
    return _step_from_impulse(a, b, _impulse(a, b, t))


def _step_from_impulse(a: Array, b: Array, m: Impulse) -> WindowRow:
    xx = 1.0 - b * m.g_integral
    vv = xx - a * m.g
    half_gg = 0.5 * m.g * m.g
    return WindowRow(
        transition=((xx, m.g), (-b * m.g, vv)),
        observation=(m.g + a * m.g_integral, m.g_integral),
        # From the Lyapunov equation: q_xv' = q_vv - b q_xx - a q_xv and q_xv = g²/2.
        noise_cov=((m.g_squared, half_gg), (half_gg, m.g * vv + b * m.g_squared + a * half_gg)),
        cross_cov=(0.5 * m.g_integral * m.g_integral, m.g_integral * m.g - m.g_squared),
        observation_var=m.g_integral_squared,
    )


def _impulse_by_doubling(a: Array, b: Array, t: Array) -> Impulse:
    rate = jnp.maximum(jnp.abs(a), jnp.sqrt(jnp.abs(b)))
    ratio = jnp.maximum(jnp.max(rate * t, initial=0.0) / _SERIES_RADIUS, 1.0)
    count = jnp.ceil(jnp.log2(jnp.minimum(ratio, 2.0**_MAX_DOUBLINGS))).astype(jnp.int32)
    h = t * 2.0 ** (-count)
    return lax.fori_loop(0, count, lambda _, m: _doubled(a, b, m), _series(a * h, b * h * h, h))


def _doubled(a: Array, b: Array, m: Impulse) -> Impulse:
    """The four scalars over twice the step."""
    ((xx, xv), (_, vv)), (zx, zv), ((q_xx, q_xv), (_, q_vv)), (q_zx, q_zv), _ = _step_from_impulse(a, b, m)
    return Impulse(
        g=m.g * (vv + xx),
        g_integral=m.g_integral * (1.0 + vv) + m.g * zx,
        g_squared=m.g_squared * (1.0 + xx**2) + xv * (2.0 * xx * q_xv + xv * q_vv),
        g_integral_squared=2.0 * m.g_integral_squared
        + zx * (zx * q_xx + 2.0 * (q_zx + zv * q_xv))
        + zv * (zv * q_vv + 2.0 * q_zv),
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


def relaxation_step(rate: Array, t: Array) -> WindowRow:
    """Exact transition of first-order relaxation over a step, and its noise per unit of diffusion.

    ``rate`` is the relaxation rate, 1/step, of any sign; ``t`` the length of the step in optimizer steps, ≥ 0.
    """
    rate, t = jnp.broadcast_arrays(rate, t)
    x = rate * t
    integral = t * _mean_decay(x)
    return WindowRow(
        transition=((1.0 - rate * integral,),),
        observation=(integral,),
        noise_cov=((t * _mean_decay(2.0 * x),),),
        cross_cov=(0.5 * integral * integral,),
        observation_var=t**3 * _mean_square(x),
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
