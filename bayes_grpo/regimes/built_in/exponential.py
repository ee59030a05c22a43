"""Regime `exponential`: first-order relaxation with noise, the oscillator's overdamped limit.

Its mean is the single-exponential saturation law of arXiv 2507.18014, R* - (R* - R₀) e^{-t/τ}. With a logged
learning rate the rate follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import POSITIVE, Parameter, Quantity, Regime
from bayes_grpo.regimes.common import (
    HALF_GAIN,
    LEVELS,
    NOISES,
    first_order_row,
    initial_levels,
    response_prior,
    with_level,
)
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series


class Exponential(Regime):
    r"""First-order relaxation, with u the learning rate over the run's highest one.

    .. math:: dx = -\frac{u}{\tau}x\,dt + u\sqrt{2\sigma_f^2/\tau}\,dW, \quad x(s_0) = R_0 - R^*
    """

    name = "exponential"
    title = "first-order relaxation (single exponential)"
    quantities: ClassVar = {"relaxation_rate": Quantity("1/step", "1/τ"), **HALF_GAIN}

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Relaxation time, the two noises, and the two levels (integrated out)."""
        meaning = "τ: steps to come closer to the fixed point by a factor e"
        return (Parameter("relaxation_time", "step", meaning, POSITIVE, response_prior), *NOISES, *LEVELS)

    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        rate = 1.0 / values["relaxation_time"]
        diffusion = 2.0 * values["fluctuation_sd"] ** 2 * rate
        if rows.rate is not None:
            rate = rate * rows.rate
            diffusion = diffusion * rows.rate**2
        return with_level(initial_levels(marginalized), first_order_row(rate, diffusion, rows), values, rows)

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """Rate and half-gain step of each draw."""
        tau = values["relaxation_time"]
        return {"relaxation_rate": 1.0 / tau, "half_gain_step": np.log(2.0) * tau}


REGIME = Exponential()
