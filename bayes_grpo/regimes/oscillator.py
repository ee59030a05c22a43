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
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.oscillator import OscillatorStep, oscillator_step
from bayes_grpo.dynamics.state_space import Entry, Matrix, StateSpace, Vector
from bayes_grpo.regimes.base import POSITIVE, SIGNED, Parameter, Prior
from bayes_grpo.regimes.common import (
    LEVELS,
    NOISES,
    half_gain_time,
    initial_levels,
    measurement_var,
    response_prior,
)
from bayes_grpo.regimes.rows import Rows

_GROWTH_PER_UNIT = 2.0
_BLEND = 0.1


@dataclass(frozen=True)
class Oscillator:
    """The damped oscillator; see the module's text."""

    name: str = "oscillator"
    title: str = "stochastically forced damped oscillator"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Response time, damping ratio, the two noises, and the two levels (integrated out)."""
        return (
            Parameter(
                "response_time",
                "step",
                "sqrt(m/k + (c/k)²): relaxation time where overdamped, 1/ω₀ where undamped",
                POSITIVE,
                response_prior,
            ),
            Parameter(
                "damping_ratio",
                "",
                "ζ = c / (2 sqrt(mk)): below 1 oscillatory, below 0 unstable",
                SIGNED,
                lambda t: Prior(2.0, 0.8),
            ),
            *NOISES,
            *LEVELS,
        )

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Damping ratio from its coordinate s: s itself where stable, a growth over the whole log where not.

        A curve that has not blown up can have grown by a few e-folds over its log at most. So the unstable side
        is measured in e-folds over the log; in plain units of ζ it would be a cliff for all but the slowest laws.
        """
        s, response = values["damping_ratio"], values["response_time"]
        upper = 0.5 * (s + jnp.sqrt(s**2 + _BLEND**2))
        growth = _GROWTH_PER_UNIT * (upper - s) * response / rows.length
        # The growth rate |ζ| ω₀ = |ζ| sqrt(1 + 4ζ²) / T, solved for |ζ|.
        unstable = growth * jnp.sqrt(2.0 / (1.0 + jnp.sqrt(1.0 + 16.0 * growth**2)))
        return {**values, "damping_ratio": upper - unstable}

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, velocity, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        zeta = values["damping_ratio"]
        stretch = jnp.sqrt(1.0 + 4.0 * zeta**2)
        omega = stretch / values["response_time"]
        a, b = 2.0 * zeta * omega, omega**2
        # Diffusion such that the stationary sd is fluctuation_sd where overdamped, and finite through c = 0.
        diffusion = 2.0 * values["fluctuation_sd"] ** 2 * omega**3 * stretch
        if rows.rate is not None:
            b, diffusion = b * rows.rate, diffusion * rows.rate**2
        speed_var = 0.0 if rows.start_speed is None else jnp.asarray(rows.start_speed) ** 2
        mean, cov = initial_levels(linear, speed_var)
        transition, noise_cov, observation, cross_cov, observation_var = _row(a, b, diffusion, rows)
        return StateSpace(
            initial_mean=mean,
            initial_cov=cov,
            transition=transition,
            noise_cov=noise_cov,
            observation=observation,
            cross_cov=cross_cov,
            observation_var=observation_var,
            offset=0.0,
            measurement_var=measurement_var(values, rows),
        )

    def linear_values(self, initial_state: Array) -> dict[str, Array]:
        """Fixed point and initial reward from the state (x, velocity, fixed point)."""
        return {
            "fixed_point": initial_state[..., 2],
            "initial_reward": initial_state[..., 0] + initial_state[..., 2],
        }

    def derived(self, values: Mapping[str, Any], mass: float) -> dict[str, Any]:
        """Stiffness, damping and times of each draw, at the highest learning rate of the run."""
        zeta, response = np.asarray(values["damping_ratio"]), np.asarray(values["response_time"])
        omega = np.sqrt(1.0 + 4.0 * zeta**2) / response
        with np.errstate(divide="ignore"):
            return {
                "stiffness": mass * omega**2,
                "damping": 2.0 * mass * zeta * omega,
                "natural_frequency": omega,
                "relaxation_time": np.where(zeta > 0, 2.0 * zeta / omega, np.nan),
                "inertial_time": np.where(zeta > 0, 1.0 / np.abs(2.0 * zeta * omega), np.nan),
                "half_gain_step": half_gain_time(zeta, omega),
            }


def _row(a: Array, b: Array, diffusion: Array, rows: Rows) -> tuple[Matrix, Matrix, Vector, Vector, Entry]:
    """Transition, noise and observation of a row: free over its gap, averaged over its window."""
    if rows.window is None:
        step = oscillator_step(a, b, jnp.asarray(0.0 if rows.gap is None else rows.gap))
        transition, noise = _matrices(step, diffusion)
        observation = (step.xx, step.xv, 1.0)
        return transition, noise, observation, (noise[0][0], noise[1][0], 0.0), noise[0][0]
    window = jnp.asarray(rows.window)
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
    g = oscillator_step(a, b, jnp.asarray(rows.gap))
    gx, gxv, gv = diffusion * g.q_xx, diffusion * g.q_xv, diffusion * g.q_vv
    f = ((step.xx, step.xv), (step.vx, step.vv))
    carried = (gx * hx + gxv * hv, gxv * hx + gv * hv)
    both = tuple(
        tuple(f[i][0] * (gx * f[j][0] + gxv * f[j][1]) + f[i][1] * (gxv * f[j][0] + gv * f[j][1]) for j in range(2))
        for i in range(2)
    )
    transition = (
        (f[0][0] * g.xx + f[0][1] * g.vx, f[0][0] * g.xv + f[0][1] * g.vv, 0.0),
        (f[1][0] * g.xx + f[1][1] * g.vx, f[1][0] * g.xv + f[1][1] * g.vv, 0.0),
        (0.0, 0.0, 1.0),
    )
    noise = (*((noise[i][0] + both[i][0], noise[i][1] + both[i][1], 0.0) for i in range(2)), (0.0, 0.0, 0.0))
    cross = (
        sx + f[0][0] * carried[0] + f[0][1] * carried[1],
        sv + f[1][0] * carried[0] + f[1][1] * carried[1],
        0.0,
    )
    observation = (hx * g.xx + hv * g.vx, hx * g.xv + hv * g.vv, 1.0)
    return transition, noise, observation, cross, r + hx * carried[0] + hv * carried[1]


def _matrices(step: OscillatorStep, diffusion: Array) -> tuple[Matrix, Matrix]:
    """Transition and noise covariance of (x, velocity, fixed point) over a step."""
    xx, xv, vv = diffusion * step.q_xx, diffusion * step.q_xv, diffusion * step.q_vv
    return (
        ((step.xx, step.xv, 0.0), (step.vx, step.vv, 0.0), (0.0, 0.0, 1.0)),
        ((xx, xv, 0.0), (xv, vv, 0.0), (0.0, 0.0, 0.0)),
    )
