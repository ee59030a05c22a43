"""Linear thresholds of settings, given the stiffness of the update.

With the gain g = η K (η effective, K the stiffness per unit learning rate) there are three thresholds of g: the
published rule (arXiv 2606.30789), the exact one of a sampling policy that is frozen between refreshes, and the onset of
oscillation under such a policy (`bayes_grpo.dynamics.reduction`). A margin is the threshold over the gain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.dynamics.reduction import (
    MomentumConvention,
    critical_gain,
    effective_learning_rate,
    frozen_policy_onset,
    published_threshold,
    spectral_radius,
)
from bayes_grpo.probing.predict import LONGEST_REFRESH

ThresholdKind = Literal["published_rule", "frozen_policy", "oscillation"]
_MOMENTA = np.linspace(0.0, 0.999, 1000)
"""Momenta that are tried before the threshold between two of them is computed."""


class PlannedSettings(NamedTuple):
    """Settings of the planned run that decide about stability.

    Attributes:
        learning_rate: Highest η; NaN where it is unknown.
        momentum: μ or Adam's β₁, in [0, 1).
        convention: "heavy_ball" or "ema" (Adam).
        refresh_interval: Optimizer steps between refreshes of the sampling policy, at least 1.
        lag_exposure: Share of the gradient that is late, in [0, 1]; below 1 with importance ratios.
    """

    learning_rate: float
    momentum: float
    convention: MomentumConvention
    refresh_interval: float
    lag_exposure: float = 1.0


@dataclass(frozen=True)
class Threshold:
    """One threshold of the gain.

    Attributes:
        kind: "published_rule", "frozen_policy" (exact) or "oscillation" (onset).
        gain: Largest gain g = η K below it.
        margin: `gain` over the planned gain.
        learning_rate: Largest learning rate below it; NaN where the planned one is unknown.
        p_below: Probability that the planned gain lies below it, given the uncertainty of the stiffness.
    """

    kind: ThresholdKind
    gain: float
    margin: Interval
    learning_rate: Interval
    p_below: float


def gains_of(settings: PlannedSettings, stiffness: ArrayLike) -> np.ndarray:
    """Draws of the planned gain g = η K; without a learning rate the stiffness counts as that at its own rate."""
    values = np.atleast_1d(np.asarray(stiffness, dtype=np.float64)).ravel()
    if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise SettingError(f"expected positive numbers, found {stiffness!r}", parameter="stiffness")
    rate = 1.0 if math.isnan(settings.learning_rate) else settings.learning_rate
    if not (rate > 0 and math.isfinite(rate)):
        raise SettingError(f"expected a positive number, found {rate!r}", parameter="learning_rate")
    return effective_learning_rate(rate, settings.momentum, settings.convention) * values


def thresholds_of(settings: PlannedSettings, gains: np.ndarray) -> tuple[Threshold, ...]:
    """The three thresholds of planned settings, against draws of the gain."""
    momentum, exposure = float(settings.momentum), float(settings.lag_exposure)
    steps = math.ceil(settings.refresh_interval)
    rule = float(published_threshold(momentum, settings.refresh_interval))
    exact = critical_gain(momentum, steps, "hold", exposure)
    largest: dict[ThresholdKind, float] = {
        # The rule's lag is the exposed share of the interval; without exposure nothing is late and it sets no limit.
        "published_rule": rule / exposure if exposure > 0 else math.inf,
        "frozen_policy": exact,
        "oscillation": frozen_policy_onset(momentum, steps, exposure),
    }
    return tuple(
        Threshold(
            kind,
            gain,
            _interval(gain / gains),
            _interval(settings.learning_rate * gain / gains),
            float(np.mean(gains < gain)),
        )
        for kind, gain in largest.items()
    )


def largest_refresh_interval(settings: PlannedSettings, gain: float) -> int:
    """Largest refresh interval up to which a gain is stable; 0 for none, `LONGEST_REFRESH` where that one is stable."""
    for steps in range(1, LONGEST_REFRESH + 1):
        if spectral_radius(gain, settings.momentum, steps, "hold", settings.lag_exposure) > 1.0:
            return steps - 1
    return LONGEST_REFRESH


def largest_momentum(settings: PlannedSettings, stiffness: float) -> float:
    """Largest momentum up to which the other settings are stable; NaN for none, 1 where all below 1 are stable."""
    from scipy.optimize import bisect  # here: most commands that import this plan nothing

    rate = 1.0 if math.isnan(settings.learning_rate) else settings.learning_rate
    steps = math.ceil(settings.refresh_interval)

    def excess(momentum: float) -> float:
        """Spectral radius above 1, where it is unstable."""
        gain = effective_learning_rate(rate, momentum, settings.convention) * stiffness
        return spectral_radius(gain, momentum, steps, "hold", settings.lag_exposure) - 1.0

    first = next((i for i, momentum in enumerate(_MOMENTA) if excess(float(momentum)) > 0.0), None)
    if first is None:
        return 1.0
    if first == 0:
        return math.nan
    root: Any = bisect(excess, float(_MOMENTA[first - 1]), float(_MOMENTA[first]), xtol=1e-13)
    return float(root)


def _interval(values: np.ndarray) -> Interval:
    return Interval(math.inf, math.inf, math.inf, LEVEL) if np.isinf(values).all() else interval(values)
