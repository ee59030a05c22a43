"""The result of a stability check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bayes_grpo.common.intervals import LEVEL, Interval, probability_text
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.dynamics.reduction import MomentumConvention
from bayes_grpo.risk.failing import Failing

if TYPE_CHECKING:
    import pandas as pd

CurvatureSource = Literal["low_lag_run", "same_run", "measured"]

_SOURCES = {
    "low_lag_run": "the curvature comes from a run with little lag",
    "same_run": "the curvature comes from the reward curve of this very run",
    "measured": "the curvature was measured on the update itself, in its stiffest direction, and not fitted to a curve",
}


@dataclass(frozen=True)
class Verdict:
    """Stability under one lag model.

    Attributes:
        lag_model: "rule", "delay" or "hold".
        threshold: Largest stable gain g = η K.
        margin: Threshold over gain, above 1 is stable.
        probability_stable: Share of the draws of a measured curvature below the threshold. NaN for a curvature that the
            reward shows: directions that it does not show may be far stiffer and decide.
    """

    lag_model: Literal["rule", "delay", "hold"]
    threshold: float
    margin: Interval
    probability_stable: float


@dataclass(frozen=True)
class StabilityReport(Result):
    """Stability of planned settings.

    Attributes:
        gain: g = η K with the momentum convention's factor.
        momentum: μ or β.
        convention: "heavy_ball" or "ema".
        refresh_interval: K_ref in optimizer steps.
        lag_exposure: Share of the gradient that is late.
        onset: Gain above which a lag-free run oscillates.
        rule: Verdict of the published rule.
        delay: Exact verdict for gradients always K_ref steps old.
        hold: Exact verdict for a sampling policy frozen for K_ref steps.
        source: Where the curvature comes from.
        circular: Whether the verdict holds by construction and so says nothing.
        failing: How probably a run with these settings fails: by the margin of a measured curvature, else by what
            happened to others when their settings changed as much, see `bayes_grpo.risk`.
        rate: Learning rate of the run that the change starts from, on the scale that runs share; None without one.
        n_draws: Number of curvature draws; 1 for a single value.
    """

    gain: Interval
    momentum: float
    convention: MomentumConvention
    refresh_interval: float
    lag_exposure: float
    onset: float
    rule: Verdict
    delay: Verdict
    hold: Verdict
    source: CurvatureSource
    circular: bool
    failing: Failing
    rate: float | None
    n_draws: int

    in_json = (..., "sentence")

    @property
    def sentence(self) -> str:
        """The verdict in words, with its lag models, momentum convention and source of curvature."""
        verdicts = "; ".join(
            f"{words} {_judge(verdict)}(margin {_show(verdict.margin, self)})"
            for words, verdict in (
                ("by the published rule", self.rule),
                ("with gradients always as old as the refresh interval", self.delay),
                ("with a sampling policy frozen between refreshes", self.hold),
            )
        )
        convention = "heavy-ball" if self.convention == "heavy_ball" else "EMA (Adam)"
        text = (
            f"{self.stable}. {convention} momentum {self.momentum:g}, refresh interval {self.refresh_interval:g}, "
            f"lag exposure {self.lag_exposure:g}: {verdicts}. Here {_SOURCES[self.source]}."
        )
        if self.source != "measured" and not self.circular:
            text += (
                " Margins use the curvature that the reward shows; stiffer directions decide, which only a measurement "
                "shows. The probability in front is learned from public runs."
            )
        if self.circular:
            text += (
                " These margins are circular: a curvature fitted to a lagged curve meets the rule whatever it is."
                " Use a low-lag run or a measurement."
            )
        return text

    @property
    def stable(self) -> str:
        """The probability of being stable in words, with its interval and what it rests on."""
        low, high = (probability_text(1.0 - x) for x in (self.failing.interval.high, self.failing.interval.low))
        return f"Stable with probability {probability_text(1.0 - self.failing.p)} [{low}, {high}]: {self.failing.rests}"

    def to_frame(self) -> pd.DataFrame:
        """One row a lag model: largest stable gain, margin, probability of being stable."""
        return frame_of((self.rule, self.delay, self.hold), "lag_model")


def _judge(verdict: Verdict) -> str:
    p = verdict.probability_stable
    if math.isnan(p):
        return ""
    return f"stable with probability {probability_text(p)} " if 0.0 < p < 1.0 else "stable " if p else "unstable "


def _show(interval: Interval, report: StabilityReport) -> str:
    if report.n_draws == 1:
        return f"{interval.median:.3g}"
    return f"{interval.median:.3g}, {LEVEL:.0%} interval {interval.low:.3g} to {interval.high:.3g}"
