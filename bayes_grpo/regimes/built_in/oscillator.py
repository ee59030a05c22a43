"""Regime `oscillator`: the stochastically forced damped oscillator with stiffness and damping left free.

    m x'' + c x' + k x = forcing,   x = reward - fixed point

A reward curve identifies only k/m and c/m (and the noise); the mass is the optimizer's, (1 + μ)/2 for heavy-ball
momentum μ (reduced model of arXiv 2606.30789). Time is measured by the response time sqrt(m/k + (c/k)²): the
relaxation time c/k of an overdamped curve, 1/ω₀ of an undamped one, and smooth in between, so that it is what the
data know best in every case. With a logged learning rate the stiffness follows it, k(t) = K η(t), and so does the
forcing; reported stiffness and damping ratio refer to the highest learning rate of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.discretization import WindowRow, oscillator_step
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import POSITIVE, SIGNED, Parameter, Prior, Quantity, Regime, namespace
from bayes_grpo.regimes.common import (
    HALF_GAIN,
    LEVELS,
    NOISES,
    initial_levels,
    response_prior,
    window_row,
    with_level,
)
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series

OSCILLATOR_NOISES: tuple[Parameter, ...] = (
    NOISES[0],
    replace(
        NOISES[1],
        meaning="gradient noise: the stationary sd of the latent reward is fluctuation_sd times "
        "sqrt(sqrt(1 + 4 ζ²) / (2 ζ)), which is 1 where overdamped",
    ),
)
"""Of second-order regimes, for which only the overdamped limit of the stationary sd is finite at every damping."""

SECOND_ORDER = {
    "stiffness": Quantity("1/step²", "k = m ω₀²"),
    "damping": Quantity("1/step", "c = 2 ζ m ω₀"),
    "damping_ratio": Quantity("", "ζ = c / (2 sqrt(mk))"),
    "natural_frequency": Quantity("1/step", "ω₀ = sqrt(k/m)"),
    "relaxation_time": Quantity("step", "c/k; below 0 where unstable"),
    "inertial_time": Quantity("step", "m/c; below 0 where unstable"),
    **HALF_GAIN,
}
"""Derived by second-order regimes."""

_GROWTH_PER_UNIT = 2.0
_LARGEST_GROWTH = 15.0  # e-folds over the log; a sampler astray must not overflow
_BLEND = 0.1


RESPONSE = "sqrt(m/k + (c/k)²): relaxation time where overdamped, 1/ω₀ where undamped"


class Oscillator(Regime):
    r"""The damped oscillator, with the response time T and u the learning rate over the run's highest one.

    .. math:: dx = v\,dt, \quad dv = -(2\zeta\omega v + u\omega^2 x)\,dt
        + u\sqrt{2\sigma_f^2\omega^3\sqrt{1+4\zeta^2}}\,dW, \quad \omega = \sqrt{1+4\zeta^2}/T
    """

    name = "oscillator"
    title = "stochastically forced damped oscillator"
    quantities = SECOND_ORDER

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Response time, damping ratio, the two noises, and the two levels (integrated out)."""
        meaning = "ζ = c / (2 sqrt(mk)): below 1 oscillatory, below 0 unstable"
        return (
            Parameter("response_time", "step", RESPONSE, POSITIVE, response_prior),
            Parameter("damping_ratio", "", meaning, SIGNED, lambda t: Prior(2.0, 0.8)),
            *OSCILLATOR_NOISES,
            *LEVELS,
        )

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Response time no shorter than half a row; damping ratio from its coordinate s.

        An undamped regime faster than the rows is an alias of slower ones: sharp spurious peaks, no information. A
        response time well above the rows' spacing is left as it is.

        The damping ratio is s itself where stable, and a growth over the whole log where not. A curve that has not
        blown up can have grown by a few e-folds over its log at most. So the unstable side is measured in e-folds
        over the log; in plain units of ζ it would be a cliff for all but the slowest regimes.
        """
        s = values["damping_ratio"]
        response = jnp.sqrt(values["response_time"] ** 2 + (0.5 * rows.spacing) ** 2)
        upper = 0.5 * (s + jnp.sqrt(s**2 + _BLEND**2))
        folds = _LARGEST_GROWTH * jnp.tanh(_GROWTH_PER_UNIT * (upper - s) / _LARGEST_GROWTH)
        unstable = unstable_damping(folds * response / rows.length)
        return {**values, "response_time": response, "damping_ratio": upper - unstable}

    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, velocity, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        zeta = values["damping_ratio"]
        omega = jnp.sqrt(1.0 + 4.0 * zeta**2) / values["response_time"]
        a, b = 2.0 * zeta * omega, omega**2
        diffusion = diffusion_of(values["fluctuation_sd"], zeta, omega)
        if rows.rate is not None:
            b = b * rows.rate
            diffusion = diffusion * rows.rate**2
        return second_order_space(a, b, diffusion, values, marginalized, rows)

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """Stiffness, damping and times of each draw, at the highest learning rate of the run."""
        zeta = values["damping_ratio"]
        omega = (1.0 + 4.0 * zeta**2) ** 0.5 / values["response_time"]
        mass = table.optimizer.mass
        return {"stiffness": mass * omega**2, "damping": 2.0 * mass * zeta * omega} | second_order_times(zeta, omega)


def diffusion_of(fluctuation_sd: Array, zeta: Array, omega: Array) -> Array:
    """Diffusion of the velocity for a given fluctuation, reward²/step³.

    The stationary sd is ``fluctuation_sd * sqrt(sqrt(1 + 4 ζ²) / (2 ζ))``: ``fluctuation_sd`` where overdamped, 2.26 of
    it at ζ = .1; the diffusion stays finite through zero damping, where no stationary sd exists.
    """
    return 2.0 * fluctuation_sd**2 * omega**3 * jnp.sqrt(1.0 + 4.0 * zeta**2)


def unstable_damping(growth: Any) -> Any:
    """|ζ| of an unstable curve that grows at rate ``growth`` in units of 1/T: growth = |ζ| ω₀ T = |ζ| sqrt(1 + 4ζ²)."""
    return growth * (2.0 / (1.0 + (1.0 + 16.0 * growth**2) ** 0.5)) ** 0.5


def second_order_space(
    a: Array, b: Array, diffusion: Array, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows
) -> StateSpace:
    """State space (x, velocity, fixed point) of x'' + a x' + b x = forcing on the rows.

    ``a`` is damping over mass, 1/step, ``b`` stiffness over mass, 1/step², ``diffusion`` that of the velocity,
    reward²/step³, for all rows or for each.
    """

    def over(t: Array) -> WindowRow:
        return oscillator_step(a, b, t).forced(diffusion)

    speed_var = 0.0 if rows.start_speed is None else jnp.asarray(rows.start_speed) ** 2
    return with_level(initial_levels(marginalized, speed_var), window_row(rows, over, over), values, rows)


def second_order_times(zeta: Any, omega: Any) -> dict[str, Any]:
    """Natural frequency, relaxation, inertial and half-gain times of draws, at the highest learning rate."""
    with np.errstate(divide="ignore"):
        return {
            "natural_frequency": omega,
            "relaxation_time": 2.0 * zeta / omega,
            "inertial_time": 1.0 / (2.0 * zeta * omega),
            "half_gain_step": half_gain_time(zeta, omega),
        }


def half_gain_time(zeta: Any, omega: Any) -> Any:
    """Steps from rest until half of the way to the fixed point is done, first passage; shape of the draws.

    Solved on the unforced regime by bisection, vectorized over draws; NaN where a growing oscillation is too violent.
    """
    xp = namespace(zeta)
    zeta, omega = xp.broadcast_arrays(zeta, omega)
    # First passage lies before 1/ω₀ × (2ζ + 2): the undamped curve passes at π/3, the overdamped at 2ζ ln 2.
    low = xp.zeros_like(zeta)
    high = 2.0 * xp.maximum(zeta, 0.0) + 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        passed = _remaining(zeta, middle) < 0.5
        low, high = xp.where(passed, low, middle), xp.where(passed, middle, high)
    return high / omega


def _remaining(zeta: Any, s: Any) -> Any:
    """Share of the way still to go after ``s`` = ω₀ t from rest, closed form on both sides of ζ = 1."""
    xp = namespace(zeta)
    z = (zeta**2 - 1.0) * s**2
    root = xp.sqrt(xp.abs(z))
    near = xp.abs(z) < 1e-8
    safe = xp.where(near, 1.0, root)
    decay = xp.exp(-zeta * s)
    # e^{-ζs} cosh(root) in the form that does not overflow where strongly overdamped.
    up = xp.exp(xp.minimum(-zeta * s + root, 700.0))
    down = xp.exp(-zeta * s - root)
    over = 0.5 * (up + down) + zeta * s * 0.5 * (up - down) / safe
    under = decay * (xp.cos(root) + zeta * s * xp.sin(root) / safe)
    critical = decay * (1.0 + z / 2.0 + zeta * s * (1.0 + z / 6.0))
    return xp.where(near, critical, xp.where(z > 0, over, under))


REGIME = Oscillator()
