"""Regime `exponential`: first-order relaxation with noise, the oscillator's overdamped limit.

Its mean is the single-exponential saturation law of arXiv 2507.18014, R* - (R* - R₀) e^{-t/τ}. With a logged
learning rate the rate follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.relaxation import relaxation_step
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import POSITIVE, Parameter
from bayes_grpo.regimes.common import LEVELS, NOISES, initial_levels, measurement_var, response_prior
from bayes_grpo.regimes.rows import Rows, RowTable


@dataclass(frozen=True)
class Exponential:
    """First-order relaxation; see the module's text."""

    name: str = "exponential"
    title: str = "first-order relaxation (single exponential)"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Relaxation time, the two noises, and the two levels (integrated out)."""
        return (
            Parameter(
                "relaxation_time",
                "step",
                "τ: steps to come closer to the fixed point by a factor e",
                POSITIVE,
                response_prior,
            ),
            *NOISES,
            *LEVELS,
        )

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Nothing to do: the parameters are independent."""
        return values

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        rate = 1.0 / values["relaxation_time"]
        diffusion = 2.0 * values["fluctuation_sd"] ** 2 * rate
        if rows.rate is not None:
            rate, diffusion = rate * rows.rate, diffusion * rows.rate**2
        window = jnp.asarray(0.0 if rows.window is None else rows.window)
        step = relaxation_step(rate, window)
        instant, width = window == 0, jnp.where(window == 0, 1.0, window)
        h = jnp.where(instant, step.xx, step.zx / width)
        s = diffusion * jnp.where(instant, step.q_xx, step.q_zx / width)
        r = diffusion * jnp.where(instant, step.q_xx, step.q_zz / width**2)
        f, q = step.xx, diffusion * step.q_xx
        if rows.gap is not None:
            g = relaxation_step(rate, jnp.asarray(rows.gap))
            before = diffusion * g.q_xx
            q, s, r = q + f * f * before, s + f * h * before, r + h * h * before
            f, h = f * g.xx, h * g.xx
        mean, cov = initial_levels(linear)
        return StateSpace(
            initial_mean=mean,
            initial_cov=cov,
            transition=((f, 0.0), (0.0, 1.0)),
            noise_cov=((q, 0.0), (0.0, 0.0)),
            observation=(h, 1.0),
            cross_cov=(s, 0.0),
            observation_var=r,
            offset=0.0,
            measurement_var=measurement_var(values, rows),
        )

    def check(self, table: RowTable) -> None:
        """Fits any rows."""

    def linear_values(self, initial_state: Array) -> dict[str, Array]:
        """Fixed point and initial reward from the state (x, fixed point)."""
        return {
            "fixed_point": initial_state[..., 1],
            "initial_reward": initial_state[..., 0] + initial_state[..., 1],
        }

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """Rate and half-gain step of each draw."""
        tau = np.asarray(values["relaxation_time"])
        return {"relaxation_rate": 1.0 / tau, "half_gain_step": np.log(2.0) * tau}
