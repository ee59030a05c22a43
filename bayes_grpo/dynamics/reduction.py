"""Effective learning rate, refresh interval and momentum of an optimizer whose gradients may come late.

Near its fixed point the mean reward follows, with momentum μ, gain g = η K and gradients evaluated late,

    x[t+1] = x[t] + μ (x[t] − x[t−1]) − g x[late] + ξ[t]

(Predictable GRPO, arXiv 2606.30789; the exact maps of `bayes_grpo.dynamics.thresholds` are our own algebra). Two lag
models are kept separate, next to the published rule g · K_ref < 1 − μ:

* constant *delay*: every gradient is K_ref steps old, as with asynchronous rollouts;
* *hold*: the sampling policy is frozen for K_ref steps and then refreshed, as synchronous trainers do.

For an exponential moving average of gradients (Adam's β₁) the gain is (1 − β) η K. Adam's curvature is one in
preconditioned units. Plain NumPy in float64.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError

MomentumConvention = Literal["heavy_ball", "ema"]
LagModel = Literal["delay", "hold"]


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


def trl_refresh_interval(
    steps_per_generation: int, num_iterations: int = 1, gradient_accumulation_steps: int = 1
) -> float:
    """K_ref of TRL: steps_per_generation · num_iterations / gradient_accumulation_steps, at least 1."""
    return _ratio(steps_per_generation * num_iterations, gradient_accumulation_steps)


def _ratio(numerator: float, denominator: float) -> float:
    if numerator < 1 or denominator < 1:
        raise SettingError(f"refresh interval: expected counts >= 1, found {numerator}/{denominator}")
    # Several generations within one optimizer step come from the same policy: no lag below one step.
    return max(1.0, numerator / denominator)


def checked_momentum(momentum: ArrayLike) -> np.ndarray:
    """Momentum in [0, 1) as an array; `SettingError` outside."""
    mu = np.asarray(momentum, dtype=np.float64)
    if not ((mu >= 0) & (mu < 1)).all():
        raise SettingError(f"momentum: expected values in [0, 1), found {momentum!r}; at 1 nothing is damped")
    return mu
