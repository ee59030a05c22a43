"""A reward that has fallen and lies there: where it was near its best last, and since when it is lost.

The fact of a curve, whatever caused it. Diagnosis, forecast, decision and fit ask this one function, so that none of
them goes on with a curve that another has declared lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.collapse import lost_along, share_lost
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import Trend, stretches


class Fallen(NamedTuple):
    """A reward that is lost at the last row of a log.

    Attributes:
        probability: That it is.
        best_step: Last step at which it was near its best.
        best: What it was there, reward.
        since: First step at which it is lost, of those up to the last.
        now: Where it stands.
        noise: Standard deviation of a row about it.
        at_once: Whether it was never near its best after its first rows, so that going back is starting anew.
    """

    probability: float
    best_step: float
    best: float
    since: float
    now: float
    noise: float
    at_once: bool = False


def fallen_of(trend: Trend, span: float, low: float = np.nan) -> Fallen | None:
    """What a reward has lost at its last row; None where it is not more probable than not that it has.

    Args:
        trend: Of the reward.
        span: Its range.
        low: Lowest reward; NaN if unknown.
    """
    if trend.rows < THRESHOLDS.trend_rows:
        return None
    chance = lost_along(trend, span, low).mean(axis=0)
    if chance[-1] < THRESHOLDS.probable or share_lost(trend, span, low)[-1] <= THRESHOLDS.lost:
        return None
    first, _ = stretches(chance >= THRESHOLDS.probable)[-1]
    step = last_near_best(trend, float(trend.step[first]))
    best = float(np.interp(step, trend.step, trend.mean))
    now = max(float(trend.mean[-1]), low) if np.isfinite(low) else float(trend.mean[-1])
    at_once = step <= float(trend.step[min(THRESHOLDS.first_rows, trend.rows) - 1])
    if at_once:  # what was lost before the trend could show it stands in the first rows
        best = max(best, float(trend.raw[: THRESHOLDS.first_rows].mean()))
    if best <= now:
        return None
    return Fallen(float(chance[-1]), step, best, float(trend.step[first]), now, float(trend.noise_sd), at_once)


def last_lost(trend: Trend, span: float, low: float = np.nan) -> tuple[float, float] | None:
    """First and last step of the last stretch in which a reward is lost, whether it came back or not; None without."""
    found = stretches(lost_along(trend, span, low).mean(axis=0) >= THRESHOLDS.probable)
    return None if not found else (float(trend.step[found[-1][0]]), float(trend.step[found[-1][1]]))


def last_near_best(trend: Trend, until: float) -> float:
    """Last step up to one at which a signal is within its noise of its best by then."""
    before = trend.step <= until
    near = before & (trend.mean >= trend.mean[before].max() - trend.noise_sd)
    return float(trend.step[np.flatnonzero(near)[-1]])
