"""Tells before a run whether its settings are stable.

There are two verdicts: the published rule (arXiv 2606.30789), and the exact threshold of a sampling policy that is
frozen between refreshes (`bayes_grpo.dynamics.reduction`). A margin is the threshold over the run's gain g = η K; above
1 is stable.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.dynamics.reduction import (
    MomentumConvention,
    critical_gain,
    effective_learning_rate,
    published_threshold,
)
from bayes_grpo.planning.result import CurvatureSource, StabilityReport, Verdict
from bayes_grpo.risk.change import Change
from bayes_grpo.risk.failure import failure_risk, shared_rate


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
