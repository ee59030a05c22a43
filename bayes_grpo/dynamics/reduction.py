"""From a trainer's settings and one curvature to an oscillator and its noise.

Near its fixed point the mean reward follows, with momentum μ, gain g = η K and gradients evaluated late,

    x[t+1] = x[t] + μ (x[t] − x[t−1]) − g x[late] + ξ[t]

which a second-order expansion in the step turns into m x'' + c x' + k x = ξ (Predictable GRPO,
arXiv 2606.30789; the mass and the exact maps of `bayes_grpo.dynamics.thresholds` are our own algebra). Three lag models
are kept separate:

* the published rule, g · K_ref < 1 − μ: the sign of the continuum's damping at lag K_ref;
* constant *delay*: every gradient is K_ref steps old, as with asynchronous rollouts;
* *hold*: the sampling policy is frozen for K_ref steps and then refreshed, as synchronous trainers do.

For an exponential moving average of gradients (Adam's β₁) the gain is (1 − β) η K. Adam's curvature is one in
preconditioned units. Plain NumPy in float64; `oscillator_coefficients` also takes JAX arrays.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError

MomentumConvention = Literal["heavy_ball", "ema"]
LagModel = Literal["delay", "hold"]


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


def effective_learning_rate(learning_rate: Any, momentum: Any, convention: MomentumConvention) -> Any:
    """Step size that multiplies a fresh gradient: η for heavy ball, (1 − β) η for a moving average.

    Args:
        learning_rate: η.
        momentum: μ or β, in [0, 1).
        convention: "heavy_ball" (v = μv + g) or "ema" (v = βv + (1 − β)g, also Adam).

    Returns:
        The effective step size.

    Raises:
        SettingError: The convention is unknown.
    """
    if convention not in get_args(MomentumConvention):
        raise SettingError(f"momentum convention: expected heavy_ball or ema, found {convention!r}")
    return learning_rate if convention == "heavy_ball" else (1.0 - momentum) * learning_rate


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


def mean_lag(refresh_interval: Any, lag_model: LagModel | Literal["rule"]) -> Any:
    """Mean age of a gradient in optimizer steps: K_ref for the rule and for delay, (K_ref − 1)/2 for hold."""
    return (refresh_interval - 1) / 2 if lag_model == "hold" else refresh_interval


def trl_refresh_interval(
    steps_per_generation: int, num_iterations: int = 1, gradient_accumulation_steps: int = 1
) -> float:
    """K_ref of TRL: steps_per_generation · num_iterations / gradient_accumulation_steps, at least 1."""
    made, used = steps_per_generation * num_iterations, gradient_accumulation_steps
    if made < 1 or used < 1:
        raise SettingError(f"refresh interval: expected counts >= 1, found {made}/{used}")
    # Several generations within one optimizer step come from the same policy: no lag below one step.
    return max(1.0, made / used)


def checked_momentum(momentum: ArrayLike) -> np.ndarray:
    """Momentum in [0, 1) as an array; `SettingError` outside."""
    mu = np.asarray(momentum, dtype=np.float64)
    if not ((mu >= 0) & (mu < 1)).all():
        raise SettingError(f"momentum: expected values in [0, 1), found {momentum!r}; at 1 nothing is damped")
    return mu
