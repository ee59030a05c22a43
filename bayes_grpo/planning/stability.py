"""`stability`: whether settings are stable, given the curvature of the reward's drift from a fit.

There are two verdicts: the published rule (arXiv 2606.30789), and the exact threshold of a sampling policy that is
frozen between refreshes (`bayes_grpo.dynamics.reduction`). A margin is the threshold over the run's gain g = η K; above
1 is stable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, Interval, interval, percent
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.common.text import every
from bayes_grpo.dynamics.reduction import (
    MomentumConvention,
    critical_gain,
    effective_learning_rate,
    published_threshold,
)
from bayes_grpo.fitting.result import Fit
from bayes_grpo.risk.failure import FailureRisk, failure_risk, shared_rate
from bayes_grpo.risk.threshold import Change, change

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


class FittedCurvature(NamedTuple):
    """Posterior of the curvature with its origin.

    Attributes:
        draws: K per unit learning rate and step, shape (draws,); Adam: in preconditioned units.
        source: "low_lag_run" where the fitted run refreshed its policy every step, else "same_run".
        note: How it was found.
        settings: Settings of the fitted run: learning rate, refresh interval, momentum and its convention.
    """

    draws: np.ndarray
    source: Literal["low_lag_run", "same_run"]
    note: str
    settings: Mapping[str, Any]

    def change_to(self, learning_rate: float, refresh_interval: float) -> Change:
        """What planned settings change from those of the fitted run."""
        return change(self.settings, {"learning_rate": learning_rate, "refresh_interval": refresh_interval})


def curvature_of(fit: Fit, learning_rate: float | None = None) -> FittedCurvature:
    """Curvature from the fitted learning time.

    A reward curve identifies its saturation time far better than stiffness and damping separately. So the gain is
    derived from that time, g = (1 − μ)/τ, or is a parameter of the regime (`reduction`).

    Args:
        fit: A fit of a run with a known learning rate.
        learning_rate: Peak learning rate of the fitted run, where its log lacks it.

    Returns:
        Draws of the curvature.

    Raises:
        SettingError: The fitted run's learning rate is unknown, or its regime has no learning time.
    """
    rows = fit.as_draws.rows
    rate = learning_rate if learning_rate is not None else rows.reference_rate
    if not (np.isfinite(rate) and rate > 0):
        raise SettingError(
            "curvature from a fit: the fitted log has no learning rate; fit it with --set learning_rate=…"
        )
    momentum, convention = rows.optimizer.momentum, rows.optimizer.convention
    posterior = fit.data["posterior"].dataset
    if "gain" in posterior:
        gain, how = fit.draws("gain").ravel(), f"gain of regime {fit.regime.name}"
    elif "relaxation_time" in posterior:
        tau = fit.draws("relaxation_time").ravel()
        gain, how = (1.0 - momentum) / tau[np.isfinite(tau) & (tau > 0)], f"relaxation time of {fit.regime.name}"
    else:
        raise SettingError(f"curvature from a fit: regime {fit.regime.name} has no learning time; fit another")
    if not gain.size:
        raise SettingError("curvature from a fit: every draw is unstable, so there is no learning time")
    known: Any = convention
    refresh = rows.optimizer.refresh
    return FittedCurvature(
        draws=gain / effective_learning_rate(rate, momentum, known),
        source="low_lag_run" if refresh <= 1 else "same_run",
        settings={
            "learning_rate": rate,
            "refresh_interval": refresh,
            "momentum": momentum,
            "convention": convention,
        },
        note=f"{how}, run {fit.about.run} with learning rate {rate:g} and refresh {every(refresh)}",
    )


def stability(
    learning_rate: float,
    momentum: float,
    convention: MomentumConvention,
    refresh_interval: float,
    *,
    curvature: ArrayLike,
    lag_exposure: float = 1.0,
    source: CurvatureSource = "measured",
    changed: Change | None = None,
    shared: bool = True,
    failed: bool = False,
) -> StabilityReport:
    """Margins of planned settings by the rule and by the exact maps.

    Args:
        learning_rate: Peak η of the planned run.
        momentum: μ or Adam's β₁, in [0, 1).
        convention: "heavy_ball" or "ema" (Adam).
        refresh_interval: K_ref in optimizer steps, at least 1. The exact maps round a fraction up.
        curvature: K per unit learning rate and step (Adam: in preconditioned units), a value or posterior
            draws.
        lag_exposure: Share of the gradient that is late, in [0, 1]; below 1 with importance ratios.
        source: Where the curvature comes from: "measured" in the stiffest direction (`bayes_grpo.probing`), or the
            reward curve of a run, "low_lag_run" or "same_run"; the latter with K_ref > 1 is circular.
        changed: What these settings change from those of the run that the curvature comes from; None for a run of the
            same learning rate that refreshed its policy every step. Not used for a measured curvature.
        shared: Whether the learning rate is on the scale that runs share; False where none was logged and any will do.
        failed: Whether the run that the curvature comes from failed. Not used for a measured curvature.

    Returns:
        The report.

    Raises:
        SettingError: A setting is out of range.
    """
    if source not in get_args(CurvatureSource):
        raise SettingError(f"source: expected one of {', '.join(get_args(CurvatureSource))}, found {source!r}")
    if not (learning_rate > 0 and math.isfinite(learning_rate)):
        raise SettingError(f"learning rate: expected a positive number, found {learning_rate!r}")
    threshold = float(published_threshold(momentum, refresh_interval))
    steps = math.ceil(refresh_interval)
    gain = _gains(learning_rate, momentum, convention, curvature)
    # The rule's lag is the exposed share of K_ref; without exposure nothing is late and it sets no limit.
    rule = threshold / lag_exposure if lag_exposure > 0 else math.inf
    thresholds: tuple[tuple[Literal["rule", "hold"], float], ...] = (
        ("rule", rule),
        ("hold", critical_gain(float(momentum), steps, "hold", float(lag_exposure))),
    )
    measured = source == "measured"
    verdicts = {
        name: Verdict(name, value, _interval(value / gain), float(np.mean(value > gain)) if measured else math.nan)
        for name, value in thresholds
    }
    if changed is None:
        changed = Change(refresh_interval=math.log(refresh_interval), epochs=0.5 * math.log(refresh_interval))
    rate = shared_rate(learning_rate / math.exp(changed.learning_rate), convention) if shared else None
    margin = verdicts["hold"].threshold / gain if measured else None
    risk = failure_risk(changed, rate=rate, failed=failed, margin=margin)
    return StabilityReport(
        gain=_interval(gain),
        momentum=float(momentum),
        convention=convention,
        refresh_interval=float(refresh_interval),
        lag_exposure=float(lag_exposure),
        **verdicts,
        source=source,
        circular=source == "same_run" and refresh_interval > 1,
        failure_risk=risk,
        rate=rate,
    )


def _gains(learning_rate: float, momentum: float, convention: MomentumConvention, curvature: ArrayLike) -> np.ndarray:
    """Draws of g = η K, shape (draws,)."""
    values = np.atleast_1d(np.asarray(curvature, dtype=np.float64)).ravel()
    if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise SettingError(f"curvature: expected positive numbers, found {curvature!r}")
    return effective_learning_rate(learning_rate, momentum, convention) * values


def _interval(values: np.ndarray) -> Interval:
    return Interval(math.inf, math.inf, math.inf, LEVEL) if np.isinf(values).all() else interval(values)
