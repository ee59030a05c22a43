"""The result of a stability check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bayes_grpo.common.intervals import Interval, percent
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.dynamics.reduction import MomentumConvention
from bayes_grpo.risk.failure import FailureRisk

if TYPE_CHECKING:
    import pandas as pd

CurvatureSource = Literal["low_lag_run", "same_run", "measured"]


@dataclass(frozen=True)
class Verdict:
    """Stability under one lag model.

    Attributes:
        lag_model: "rule" or "hold".
        threshold: Largest stable gain g = η K.
        margin: Threshold over gain, above 1 is stable.
        probability_stable: Share of the draws of a measured curvature below the threshold. NaN for a curvature that the
            reward shows: directions that it does not show may be far stiffer and decide.
    """

    lag_model: Literal["rule", "hold"]
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
        rule: Verdict of the published rule.
        hold: Exact verdict for a sampling policy frozen for K_ref steps.
        source: Where the curvature comes from.
        circular: Whether the verdict holds by construction and so says nothing.
        failure_risk: How probably a run with these settings fails: by the margin of a measured curvature, else by what
            happened to others when their settings changed as much, see `bayes_grpo.risk`.
        rate: Learning rate of the run that the change starts from, on the scale that runs share; None without one.
    """

    gain: Interval
    momentum: float
    convention: MomentumConvention
    refresh_interval: float
    lag_exposure: float
    rule: Verdict
    hold: Verdict
    source: CurvatureSource
    circular: bool
    failure_risk: FailureRisk
    rate: float | None

    also_in_json = ("sentence",)

    @property
    def sentence(self) -> str:
        """The verdict in words, and how far its margins can be trusted."""
        if self.circular:
            return (
                f"{self.stable}. These margins are circular: a curvature fitted to a lagged curve meets any rule. "
                "Use a low-lag run or a measurement."
            )
        if self.source == "measured":
            return f"{self.stable}."
        return (
            f"{self.stable}. Margins use the curvature of the reward curve. Stiffer directions limit stability; only a "
            "measurement shows them."
        )

    @property
    def stable(self) -> str:
        """The probability of being stable in words, with its interval and what it rests on."""
        risk = self.failure_risk
        low, high = (percent(1.0 - x) for x in (risk.interval.high, risk.interval.low))
        return f"Stable with probability {percent(1.0 - risk.p)} [{low}, {high}]: {risk.evidence}"

    def to_frame(self) -> pd.DataFrame:
        """One row a lag model: largest stable gain, margin, probability of being stable."""
        return frame_of((self.rule, self.hold), "lag_model")
