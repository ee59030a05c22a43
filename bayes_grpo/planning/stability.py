"""Tells before a run whether its settings are stable, and what group size buys.

Three verdicts stand side by side, because "lag" means three things: the published rule (arXiv 2606.30789),
and the exact thresholds of constant delay and of hold (see `bayes_grpo.dynamics.reduction`). A margin is the
threshold over the run's gain g = η K; above 1 is stable.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.dynamics.reduction import MomentumConvention, effective_learning_rate
from bayes_grpo.dynamics.thresholds import critical_gain, onset_of_oscillation, published_threshold
from bayes_grpo.planning.result import CurvatureSource, StabilityReport, Verdict
from bayes_grpo.risk.change import Change, change
from bayes_grpo.risk.failing import p_fails, shared_rate
from bayes_grpo.risk.stiffness import Stiffness, learned_stiffness


def stability(
    learning_rate: float,
    momentum: float,
    convention: MomentumConvention,
    refresh_interval: float,
    *,
    curvature: ArrayLike | None = None,
    learning_time: ArrayLike | None = None,
    learning_time_at: float | None = None,
    lag_exposure: float = 1.0,
    source: CurvatureSource = "independent",
    changed: Change | None = None,
    shared: bool = True,
    level: float = LEVEL,
) -> StabilityReport:
    """Margins of planned settings by the rule and by the exact maps.

    Args:
        learning_rate: Peak η of the planned run.
        momentum: μ or Adam's β₁, in [0, 1).
        convention: "heavy_ball" or "ema" (Adam).
        refresh_interval: K_ref in optimizer steps, at least 1. The exact maps round a fraction up.
        curvature: K per unit learning rate and step (Adam: in preconditioned units), a value or posterior
            draws.
        learning_time: Instead of a curvature, the e-fold learning time τ of a low-lag run, in optimizer steps.
            Taken as g = (1 − μ)/τ, which overstates the gain of runs that learn within a few 1/(1 − μ) steps, so
            that the margin errs on the careful side and the rule reads K_ref < τ.
        learning_time_at: Peak learning rate of the run that the learning time is of. The gain grows with the rate
            from there.
        lag_exposure: Share of the gradient that is late, in [0, 1]; below 1 with importance ratios.
        source: Where the curvature comes from; "same_run" with K_ref > 1 is circular, "measured" is that of a probe
            (`bayes_grpo.probing`).
        changed: What these settings change from those of the run that the curvature comes from; None for a run of the
            same learning rate that refreshed its policy every step. Of no account for a curvature that was measured
            independently: that is taken to be the stiffest direction's.
        shared: Whether the learning rate is on the scale that runs share; False where none was logged and any will do.
        level: Probability of the equal-tailed intervals.

    Returns:
        The report.

    Raises:
        SettingError: A setting is out of range, not exactly one of curvature and learning time is given, or a learning
            time without the learning rate that it was measured at.
    """
    if source not in get_args(CurvatureSource):
        raise SettingError(f"source: expected one of {', '.join(get_args(CurvatureSource))}, found {source!r}")
    if not 0.0 < level < 1.0:
        raise SettingError(f"level: expected a probability strictly between 0 and 1, found {level!r}")
    if not (learning_rate > 0 and math.isfinite(learning_rate)):
        raise SettingError(f"learning rate: expected a positive number, found {learning_rate!r}")
    if learning_time is not None and source == "independent":
        source = "low_lag_run"  # a learning time is read off a reward curve, which does not feel the stiffest direction
    if learning_time is not None and curvature is None and learning_time_at is None:
        raise SettingError(
            "learning time: found no learning rate that it was measured at; give the peak learning rate of that run "
            "(--fit-learning-rate, learning_time_at)"
        )
    if learning_time_at is not None:
        if learning_time is None or not (learning_time_at > 0 and math.isfinite(learning_time_at)):
            raise SettingError(
                f"learning_time_at: expected a learning rate above 0 with a learning time, found {learning_time_at!r}"
            )
        learning_time = np.asarray(learning_time, float) * learning_time_at / learning_rate
        if changed is None:
            changed = change(
                {"learning_rate": learning_time_at, "refresh_interval": 1.0},
                {"learning_rate": learning_rate, "refresh_interval": refresh_interval},
            )
    threshold = float(published_threshold(momentum, refresh_interval))
    steps = math.ceil(refresh_interval)
    gain = _gains(learning_rate, momentum, convention, curvature, learning_time)
    # The rule's lag is the exposed share of K_ref; without exposure nothing is late and it sets no limit.
    rule = threshold / lag_exposure if lag_exposure > 0 else math.inf
    thresholds: tuple[tuple[Literal["rule", "delay", "hold"], float], ...] = (
        ("rule", rule),
        ("delay", critical_gain(float(momentum), steps, "delay", float(lag_exposure))),
        ("hold", critical_gain(float(momentum), steps, "hold", float(lag_exposure))),
    )
    stiffness = None if source in ("independent", "measured") else learned_stiffness()
    verdicts = {
        name: Verdict(name, value, _interval(value / gain, level), _probability(value / gain, stiffness))
        for name, value in thresholds
    }
    if changed is None:
        changed = Change(refresh_interval=math.log(refresh_interval), epochs=0.5 * math.log(refresh_interval))
    rate = shared_rate(learning_rate / math.exp(changed.learning_rate), convention) if shared else None
    failing = p_fails(
        changed,
        rate=rate,
        margin=verdicts["hold"].threshold / gain if stiffness is None else None,
    )
    return StabilityReport(
        gain=_interval(gain, level),
        momentum=float(momentum),
        convention=convention,
        refresh_interval=float(refresh_interval),
        lag_exposure=float(lag_exposure),
        onset=float(onset_of_oscillation(momentum)),
        **verdicts,
        source=source,
        circular=source == "same_run" and refresh_interval > 1,
        failing=failing,
        rate=rate,
        stiffness_ratio=None if stiffness is None else stiffness.interval,
        level=float(level),
        n_draws=gain.size,
    )


def _gains(
    learning_rate: float,
    momentum: float,
    convention: MomentumConvention,
    curvature: ArrayLike | None,
    learning_time: ArrayLike | None,
) -> np.ndarray:
    """Draws of g = η K, shape (draws,)."""
    if (curvature is None) == (learning_time is None):
        raise SettingError("stability: expected exactly one of curvature and learning_time")
    name, given = ("curvature", curvature) if learning_time is None else ("learning time", learning_time)
    values = np.atleast_1d(np.asarray(given, dtype=np.float64)).ravel()
    if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise SettingError(f"{name}: expected positive numbers, found {given!r}")
    rate = effective_learning_rate(learning_rate, momentum, convention)
    return rate * values if learning_time is None else (1.0 - momentum) / values


def _probability(margin: np.ndarray, stiffness: Stiffness | None) -> float:
    """Probability that a margin holds, over how much stiffer the stiffest direction is than what the reward shows."""
    return float(np.mean(margin > 1.0)) if stiffness is None else stiffness.stable(margin)


def _interval(values: np.ndarray, level: float) -> Interval:
    if np.isinf(values).all():
        return Interval(math.inf, math.inf, math.inf, level)
    low, median, high = np.quantile(values, [0.5 - level / 2, 0.5, 0.5 + level / 2])
    return Interval(float(median), float(low), float(high), level)
