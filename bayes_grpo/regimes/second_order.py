"""What the second-order regimes share: a forced oscillator with given coefficients, put on the rows of a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.oscillator import OscillatorStep, oscillator_step
from bayes_grpo.dynamics.state_space import (
    Entry,
    Matrix,
    StateSpace,
    Vector,
    dot,
    matvec,
    plus,
    product,
    symmetric_product,
    transpose,
)
from bayes_grpo.regimes.common import half_gain_time, initial_levels, measurement_var
from bayes_grpo.rows.padding import Rows


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
    a: Array, b: Array, diffusion: Array, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows
) -> StateSpace:
    """State space (x, velocity, fixed point) of x'' + a x' + b x = forcing on the rows.

    Args:
        a: Damping over mass, 1/step, for all rows or for each.
        b: Stiffness over mass, 1/step², likewise.
        diffusion: Of the velocity, reward²/step³, likewise.
        values: Holds "observation_sd".
        linear: (mean, sd) of "fixed_point" and "initial_reward".
        rows: Rows of the log.
    """
    speed_var = 0.0 if rows.start_speed is None else jnp.asarray(rows.start_speed) ** 2
    moments, noise = initial_levels(linear, speed_var), measurement_var(values, rows)
    return StateSpace(*moments, *_row(a, b, diffusion, rows), offset=0.0, measurement_var=noise)


def second_order_times(zeta: Any, omega: Any) -> dict[str, Any]:
    """Natural frequency, relaxation, inertial and half-gain times of draws, at the highest learning rate."""
    with np.errstate(divide="ignore"):
        return {
            "natural_frequency": omega,
            "relaxation_time": 2.0 * zeta / omega,
            "inertial_time": 1.0 / (2.0 * zeta * omega),
            "half_gain_step": half_gain_time(zeta, omega),
        }


def _row(a: Array, b: Array, diffusion: Array, rows: Rows) -> tuple[Matrix, Matrix, Vector, Vector, Entry]:
    """Transition, noise and observation of a row: free over its gap, averaged over its window."""
    window = jnp.asarray(0.0 if rows.window is None else rows.window)
    step = oscillator_step(a, b, window)
    transition, noise = _matrices(step, diffusion)
    # A window of length 0 is an instantaneous value, the limit of the mean.
    instant, width = window == 0, jnp.where(window == 0, 1.0, window)
    hx = jnp.where(instant, step.xx, step.zx / width)
    hv = jnp.where(instant, step.xv, step.zv / width)
    sx = diffusion * jnp.where(instant, step.q_xx, step.q_zx / width)
    sv = diffusion * jnp.where(instant, step.q_xv, step.q_zv / width)
    r = diffusion * jnp.where(instant, step.q_xx, step.q_zz / width**2)
    if rows.gap is None:
        return transition, noise, (hx, hv, 1.0), (sx, sv, 0.0), r
    free, kicked = _matrices(oscillator_step(a, b, jnp.asarray(rows.gap)), diffusion)
    before = matvec(kicked, (hx, hv, 0.0))
    spread = symmetric_product(transition, kicked)
    return (
        product(transition, free),
        tuple(tuple(map(plus, *two)) for two in zip(noise, spread, strict=True)),
        matvec(transpose(free), (hx, hv, 1.0)),
        tuple(map(plus, (sx, sv, 0.0), matvec(transition, before))),
        r + dot((hx, hv), before[:2]),
    )


def _matrices(step: OscillatorStep, diffusion: Array) -> tuple[Matrix, Matrix]:
    """Transition and noise covariance of (x, velocity, fixed point) over a step."""
    xx, xv, vv = diffusion * step.q_xx, diffusion * step.q_xv, diffusion * step.q_vv
    return (
        ((step.xx, step.xv, 0.0), (step.vx, step.vv, 0.0), (0.0, 0.0, 1.0)),
        ((xx, xv, 0.0), (xv, vv, 0.0), (0.0, 0.0, 0.0)),
    )
