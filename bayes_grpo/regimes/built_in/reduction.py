"""Regime `reduction`: mass, damping and stiffness tied to the optimizer's settings.

They follow from the gain g = η K, the momentum μ and the mean lag τ of the gradient (reduced model of arXiv
2606.30789, with the mass that puts the onset of oscillation right). Only the gain, the lag exposure, the levels and
the noises are free. The gain is measured by the learning time (1 − μ)/g, the e-fold time of a run without lag.
Comparing this regime with `oscillator`, which leaves the damping free, tests the mechanism.

The lag is that of the *hold* model, τ = lag exposure × (K_ref − 1)/2: a trainer that draws completions, updates K_ref
times and draws again (TRL, verl) uses gradients that are 0 to K_ref − 1 steps old. The paper's rule counts the whole
K_ref. Asynchronous rollouts give gradients of one constant age, for which a refresh interval of twice that age plus 1
stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from bayes_grpo.dynamics.reduction import effective_learning_rate, mean_lag, oscillator_coefficients
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import POSITIVE, UNIT, Parameter, Prior, Quantity, Regime, namespace
from bayes_grpo.regimes.built_in.oscillator import (
    OSCILLATOR_NOISES,
    SECOND_ORDER,
    diffusion_of,
    second_order_space,
    second_order_times,
)
from bayes_grpo.regimes.common import LEVELS, response_prior
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series


class Reduction(Regime):
    r"""The mechanistic reduction, with the gain g, the lag exposure e and the refresh interval K_ref.

    .. math:: m = (1+\mu)/2 + g\tau^2/2, \quad c = (1-\mu) - g\tau, \quad k = g, \quad \tau = e\,(K_\text{ref}-1)/2
    """

    name = "reduction"
    title = "oscillator with mass, damping and stiffness from the settings"
    requires_settings = True
    quantities: ClassVar = SECOND_ORDER | {
        "gain": Quantity("1/step", "g = η K at the highest learning rate, with the momentum convention's factor"),
        "curvature": Quantity("1/(step · learning rate)", "K = g / η (Adam: in preconditioned units)"),
    }

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Learning time, lag exposure, the two noises, and the two levels (integrated out)."""
        time = "(1 − μ)/(η K): e-fold learning time of the run if it had no lag"
        share = "share of the gradient that is as old as the sampling policy"
        return (
            Parameter("learning_time", "step", time, POSITIVE, response_prior),
            Parameter("lag_exposure", "", share, UNIT, lambda t: Prior(0.5, 1.5)),
            *OSCILLATOR_NOISES,
            *LEVELS,
        )

    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, velocity, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        momentum = jnp.asarray(rows.momentum)
        gain, lag, peak, zeta, omega = _at_peak(values, momentum, rows.refresh)
        diffusion = diffusion_of(values["fluctuation_sd"], zeta, omega)
        now = peak
        if rows.rate is not None:
            now = oscillator_coefficients(gain * rows.rate, momentum, lag)
            diffusion = diffusion * (rows.rate * peak.mass / now.mass) ** 2
        return second_order_space(
            now.damping / now.mass, now.stiffness / now.mass, diffusion, values, marginalized, rows
        )

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """Curvature and what follows from it for each draw, at the highest learning rate of the run."""
        optimizer = table.optimizer
        gain, _, found, zeta, omega = _at_peak(values, optimizer.momentum, optimizer.refresh)
        out = {"gain": gain}
        rate = table.reference_rate
        convention = optimizer.convention
        if rate > 0.0:  # it is logged
            out["curvature"] = gain / effective_learning_rate(rate, optimizer.momentum, convention)  # pyright: ignore[reportArgumentType]
        out |= {"stiffness": found.stiffness, "damping": found.damping, "damping_ratio": zeta}
        return out | second_order_times(zeta, omega)


def _at_peak(values: Mapping[str, Any], momentum: Any, refresh: Any) -> tuple[Any, ...]:
    """Gain, lag, coefficients, damping ratio and natural frequency at the highest learning rate of the run."""
    gain = (1.0 - momentum) / values["learning_time"]
    lag = values["lag_exposure"] * mean_lag(refresh)
    found = oscillator_coefficients(gain, momentum, lag)
    xp = namespace(found.stiffness)
    omega = xp.sqrt(found.stiffness / found.mass)
    return gain, lag, found, found.damping / (2.0 * xp.sqrt(found.stiffness * found.mass)), omega


REGIME = Reduction()
