"""The reduced model as a regime, and its coefficients: mass, damping and stiffness tied to the optimizer's settings.

With gain g = η K, momentum μ and the mean lag τ of the gradient,

    m = (1 + μ)/2 + g τ²/2      c = (1 − μ) − g τ      k = g

(reduced model of arXiv 2606.30789, with the mass that puts the onset of oscillation right). Only the gain, the lag
exposure, the levels and the noises are free. The gain is measured by the learning time (1 − μ)/g, the e-fold time
of a run without lag. Comparing this regime with `oscillator`, which leaves the damping free, tests the mechanism.

The lag is that of the *hold* model, τ = lag exposure × (K_ref − 1)/2: a trainer that draws completions, updates K_ref
times and draws again (TRL, verl) uses gradients that are 0 to K_ref − 1 steps old. The paper's rule counts the whole
K_ref. Asynchronous rollouts give gradients of one constant age, for which a refresh interval of twice that age plus 1
stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.reduction import LagModel, MomentumConvention, checked_momentum, effective_learning_rate
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.common import LEVELS, OSCILLATOR_NOISES, SECOND_ORDER, response_prior
from bayes_grpo.regimes.parameters import POSITIVE, UNIT, Parameter, Prior, Quantity
from bayes_grpo.regimes.second_order import diffusion_of, second_order_space, second_order_times
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.table import RowTable


class OscillatorCoefficients(NamedTuple):
    """Coefficients of m x'' + c x' + k x = ξ in optimizer steps.

    Attributes:
        mass: m, steps (c is dimensionless in these units).
        damping: c, dimensionless; ≤ 0 is unstable.
        stiffness: k, 1/step.
    """

    mass: Any
    damping: Any
    stiffness: Any


def oscillator_coefficients(
    learning_rate: Any,
    curvature: Any,
    momentum: Any,
    lag: Any = 0.0,
    convention: MomentumConvention = "heavy_ball",
) -> OscillatorCoefficients:
    """Mass, damping and stiffness in closed form.

    The mass is the continuum's (1 + μ)/2 rather than the looser μ: at μ = 0.9 it puts the onset of
    oscillation within 0.1% of the discrete one, μ alone within 6%.

    Args:
        learning_rate: η.
        curvature: K, per unit learning rate and step.
        momentum: μ or β, in [0, 1).
        lag: Age τ of the gradient in optimizer steps (`mean_lag` times the lag exposure).
        convention: How momentum scales the step.

    Returns:
        The coefficients; arrays broadcast.
    """
    stiffness = effective_learning_rate(learning_rate, momentum, convention) * curvature
    mass = (1.0 + momentum) / 2.0 + stiffness * lag**2 / 2.0
    return OscillatorCoefficients(mass, (1.0 - momentum) - stiffness * lag, stiffness)


def mean_lag(refresh_interval: float, lag_model: LagModel | Literal["rule"]) -> float:
    """Mean age of a gradient in optimizer steps: K_ref for the rule and for delay, (K_ref − 1)/2 for hold."""
    return (refresh_interval - 1) / 2 if lag_model == "hold" else float(refresh_interval)


def stationary_variance(
    noise_variance: ArrayLike,
    gain: ArrayLike,
    momentum: ArrayLike,
    lag: ArrayLike = 0.0,
    exact: bool = False,
) -> np.ndarray:
    """Variance of x around the fixed point.

    Args:
        noise_variance: Var ξ of one step, reward².
        gain: g = η K.
        momentum: μ, in [0, 1).
        lag: Age of the gradient in steps; only for the continuum.
        exact: The discrete AR(2) at lag 0 instead of the stochastic differential equation.

    Returns:
        s²/(2ck) with c = 1 − μ − g·lag, or (1 + μ)s² / ((1 − μ) g (2(1 + μ) − g)); ``inf`` where unstable.

    Raises:
        SettingError: The exact form is wanted at a lag.
    """
    mu = checked_momentum(momentum)
    s2, g, tau = (np.asarray(v, dtype=np.float64) for v in (noise_variance, gain, lag))
    if exact and np.any(tau != 0):
        raise SettingError("stationary_variance: the exact form holds at lag 0; use exact=False with a lag")
    room = (1.0 - mu) * (2.0 * (1.0 + mu) - g) / (1.0 + mu) if exact else 2.0 * ((1.0 - mu) - g * tau)
    with np.errstate(divide="ignore"):
        return np.where(room > 0, s2 / np.where(room > 0, room * g, 1.0), np.inf)


FROM_SETTINGS = {
    "gain": Quantity("1/step", "g = η K at the highest learning rate, with the momentum convention's factor"),
    "curvature": Quantity("1/(step · learning rate)", "K = g / η (Adam: in preconditioned units)"),
}
"""Derived by regimes that rest on the optimizer's settings."""


GAIN: tuple[Parameter, ...] = (
    Parameter(
        "learning_time",
        "step",
        "(1 − μ)/(η K): e-fold learning time of the run if it had no lag",
        POSITIVE,
        response_prior,
    ),
    Parameter(
        "lag_exposure",
        "",
        "share of the gradient that is as old as the sampling policy",
        UNIT,
        lambda t: Prior(0.5, 1.5),
    ),
)
"""Parameters of the regimes that rest on the optimizer's settings."""


class Reduction(Regime):
    """The mechanistic reduction; see the module's text."""

    name = "reduction"
    title = "oscillator with mass, damping and stiffness from the settings"
    quantities: ClassVar = SECOND_ORDER | FROM_SETTINGS

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Learning time, lag exposure, the two noises, and the two levels (integrated out)."""
        return (*GAIN, *OSCILLATOR_NOISES, *LEVELS)

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, velocity, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        momentum, lag = jnp.asarray(rows.momentum), values["lag_exposure"] * held_lag(jnp.asarray(rows.refresh))
        gain = (1.0 - momentum) / values["learning_time"]
        # The closed form with the learning rate folded into the gain.
        peak = oscillator_coefficients(1.0, gain, momentum, lag)
        omega = jnp.sqrt(peak.stiffness / peak.mass)
        zeta = peak.damping / (2.0 * jnp.sqrt(peak.stiffness * peak.mass))
        diffusion = diffusion_of(values["fluctuation_sd"], zeta, omega)
        now = peak
        if rows.rate is not None:
            now = oscillator_coefficients(1.0, gain * rows.rate, momentum, lag)
            diffusion = diffusion * (rows.rate * peak.mass / now.mass) ** 2
        return second_order_space(now.damping / now.mass, now.stiffness / now.mass, diffusion, values, linear, rows)

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """Curvature and what follows from it for each draw, at the highest learning rate of the run."""
        optimizer = table.optimizer
        gain = (1.0 - optimizer.momentum) / values["learning_time"]
        lag = values["lag_exposure"] * held_lag(optimizer.refresh)
        found = oscillator_coefficients(1.0, gain, optimizer.momentum, lag)
        omega = (found.stiffness / found.mass) ** 0.5
        zeta = found.damping / (2.0 * (found.stiffness * found.mass) ** 0.5)
        return gain_and_curvature(gain, table) | {
            "stiffness": found.stiffness,
            "damping": found.damping,
            "damping_ratio": zeta,
            **second_order_times(zeta, omega),
        }


REDUCTION = Reduction()


def held_lag(refresh: Any) -> Any:
    """Mean age in steps of a gradient that is late, with a sampling policy frozen between refreshes."""
    return mean_lag(refresh, "hold")


def gain_and_curvature(gain: Any, table: RowTable) -> dict[str, Any]:
    """Gain g, and the curvature K = g / η where the learning rate is logged (Adam: in preconditioned units)."""
    out = {"gain": gain}
    rate = table.reference_rate
    if np.isfinite(rate) and rate > 0:
        optimizer = table.optimizer
        convention: Any = optimizer.convention
        out["curvature"] = gain / effective_learning_rate(rate, optimizer.momentum, convention)
    return out
