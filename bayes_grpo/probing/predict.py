"""From a measured stiffness to what settings do: margins, the onset of oscillation, the largest settings that hold."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, Interval, percent
from bayes_grpo.common.results import Result
from bayes_grpo.dynamics.reduction import (
    MomentumConvention,
    critical_gain,
    effective_learning_rate,
    frozen_policy_onset,
)
from bayes_grpo.probing.estimate import Probe

SURELY = 0.95
"""Probability of being stable at which a setting counts as one that holds."""
LONGEST_REFRESH = 4096
"""The largest refresh interval that is tried."""


@dataclass(frozen=True)
class ProbeLimits(Result):
    """Stability limits of settings from a measured stiffness.

    Attributes:
        learning_rate: The learning rate η.
        momentum: μ or β₁.
        convention: "heavy_ball" or "ema" (Adam).
        refresh_interval: K_ref in optimizer steps, whole.
        lag_exposure: Share of the stiffness that is late.
        margin: Exact threshold of the frozen policy over η K; above 1 is stable. Its upper end is infinite where
            K may be 0.
        p_stable: Probability that it is above 1.
        p_oscillates: Probability that the stiffest direction oscillates.
        largest_learning_rate: Largest η at which the settings are stable with probability `SURELY`.
        largest_refresh_interval: Largest K_ref at which they are; 0 where none is, `LONGEST_REFRESH` where that
            holds as well.
    """

    learning_rate: float
    momentum: float
    convention: MomentumConvention
    refresh_interval: int
    lag_exposure: float
    margin: Interval
    p_stable: float
    p_oscillates: float
    largest_learning_rate: float
    largest_refresh_interval: int

    also_in_json = ("sentence",)

    @property
    def sentence(self) -> str:
        """The prediction in words."""
        m = self.margin
        rate = f"up to a learning rate of {self.largest_learning_rate:.3g}"
        refresh = {
            0: "at no refresh interval with this learning rate",
            LONGEST_REFRESH: "at any refresh interval",
        }.get(self.largest_refresh_interval, f"up to a refresh every {self.largest_refresh_interval} steps")
        return (
            f"Stable with probability {percent(self.p_stable)} by measured stiffness: margin {m.median:.3g} "
            f"[{m.low:.3g}, {m.high:.3g}] ({m.level:.0%}). Oscillating with probability "
            f"{percent(self.p_oscillates)}. Stable with probability {SURELY:.0%} {rate}, or {refresh}."
        )


def limits_of(
    probe: Probe,
    learning_rate: float,
    momentum: float = 0.9,
    refresh_interval: float = 1,
    *,
    convention: MomentumConvention | None = None,
    lag_exposure: float | None = None,
) -> ProbeLimits:
    """The limits that a probe sets to settings.

    Args:
        probe: What was measured.
        learning_rate: η, positive.
        momentum: μ or β₁, in [0, 1).
        refresh_interval: K_ref in optimizer steps, at least 1; a fraction counts up.
        convention: By default "ema" for a probe in Adam's metric, else "heavy_ball".
        lag_exposure: Share of the gradient that is late, in [0, 1]; by default what the probe measured.

    Raises:
        SettingError: A setting is out of range, the convention is not that of the probe's metric, or the probe's batch
            was too small to feel anything stiff.
    """
    if not (learning_rate > 0 and math.isfinite(learning_rate)):
        raise SettingError(f"expected a positive number, found {learning_rate!r}", parameter="learning_rate")
    kind: MomentumConvention = convention or ("ema" if probe.optimizer == "adam" else "heavy_ball")
    if probe.optimizer == "adam" and kind == "heavy_ball":
        raise SettingError("convention: this stiffness was measured in Adam's metric; expected ema, found heavy_ball")
    if not probe.stiffest.detected:
        raise SettingError(
            f"limits_of: expected a stiffness that differs from 0, found {probe.stiffest.mean:.3g} with an error "
            f"of {probe.stiffest.sd:.2g}; probe a larger batch, or one of a policy that varies more"
        )
    exposure = probe.late_share if lag_exposure is None else float(lag_exposure)
    if not (refresh_interval >= 1 and math.isfinite(refresh_interval)):
        raise SettingError(
            f"expected at least 1 optimizer step, found {refresh_interval!r}", parameter="refresh_interval"
        )
    interval = math.ceil(refresh_interval)
    rate = float(effective_learning_rate(learning_rate, momentum, kind))
    k = probe.stiffest
    threshold = critical_gain(float(momentum), interval, "hold", exposure)
    high = k.quantile(SURELY)
    tail = 0.5 - LEVEL / 2.0
    margin, low, up = (threshold / rate / x if x > 0 else math.inf for x in map(k.quantile, (0.5, 1.0 - tail, tail)))
    widest = threshold / high * learning_rate / rate
    return ProbeLimits(
        learning_rate=float(learning_rate),
        momentum=float(momentum),
        convention=kind,
        refresh_interval=interval,
        lag_exposure=exposure,
        margin=Interval(margin, low, up, LEVEL),
        p_stable=k.below(threshold / rate),
        p_oscillates=1.0 - k.below(frozen_policy_onset(float(momentum), interval, exposure) / rate),
        largest_learning_rate=widest,
        largest_refresh_interval=_largest_interval(high * rate, float(momentum), exposure),
    )


def _largest_interval(gain: float, momentum: float, exposure: float) -> int:
    """Largest refresh interval at which a gain is stable; a longer one holds less."""

    def unstable(interval: int) -> bool:
        return gain >= critical_gain(momentum, interval, "hold", exposure)

    high = 1
    while high <= LONGEST_REFRESH and not unstable(high):
        high *= 2
    if high > LONGEST_REFRESH:
        return LONGEST_REFRESH
    low = high // 2
    return low + bisect_left(range(low + 1, high), True, key=unstable)
