"""Loss of a reward's gain or level, at every row and at the last one.

Forecast, decision and fit use this module, and it uses the rule of the diagnosis for the last row. So all of them agree
on whether a reward is lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.logged import Logged, lost_strength
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.rows.series import stretches


def lost_at(trend: Trend, span: float, low: float = np.nan) -> np.ndarray:
    """Whether a reward is lost at each of its rows, by the rows up to it (`logged.lost_strength`), shape (n,).

    Args:
        trend: Of a reward.
        span: Its range.
        low: Lowest reward; NaN if unknown.
    """
    rows = Logged(trend.raw_step, trend.raw)
    past = [rows.until(step) for step in trend.step]
    return np.array([lost_strength(y, low, low + span, THRESHOLDS.trend_rows) > 1.0 for y in past])


def rows_collapsed(y: np.ndarray) -> bool:
    """Whether a reward is lost at its last row, shape (n,), by the rule of the diagnosis."""
    return Logged(np.arange(float(len(y))), y).loss() > 1.0


class Fallen(NamedTuple):
    """A reward that is lost at the last row of a log.

    Attributes:
        best_step: Last step at which it was near its best.
        best: What it was there, reward.
        now: Where it stands.
        saved_step: Step of the checkpoint to go back to: of the best evaluation reward where one is logged, else
            ``best_step``.
        saved: What the reward was there.
        at_once: Whether it was never near its best after its first rows, so that going back is starting again.
    """

    best_step: float
    best: float
    now: float
    saved_step: float
    saved: float
    at_once: bool = False


def fallen_of(trend: Trend, span: float, low: float = np.nan, held_out_best: float | None = None) -> Fallen | None:
    """What a reward has lost at its last row, by the rule of the diagnosis (`lost_strength`); None if it has not.

    Args:
        trend: Of the reward.
        span: Its range.
        low: Lowest reward; NaN if unknown.
        held_out_best: Step of the best evaluation reward; None where none is logged.
    """
    rows = Logged(trend.raw_step, trend.raw)
    if lost_strength(rows, low, low + span, THRESHOLDS.trend_rows) <= 1.0:
        return None
    step = last_near_best(trend, float(rows.step[rows.fall[1] - 1]))
    best = float(np.interp(step, trend.step, trend.mean))
    now = max(float(trend.mean[-1]), low) if np.isfinite(low) else float(trend.mean[-1])
    at_once = step <= float(trend.step[min(THRESHOLDS.first_rows, trend.rows) - 1])
    if at_once:  # what was lost before the trend could show it stands in the first rows
        best = max(best, float(trend.raw[: THRESHOLDS.first_rows].mean()))
    if best <= now:
        return None
    if held_out_best is None:
        return Fallen(step, best, now, step, best, at_once)
    return Fallen(step, best, now, held_out_best, float(np.interp(held_out_best, trend.step, trend.mean)))


def last_lost(trend: Trend, span: float, low: float = np.nan) -> tuple[float, float] | None:
    """First and last step of the last stretch in which a reward is lost, whether it came back or not; None without."""
    found = stretches(lost_at(trend, span, low), THRESHOLDS.least_rows)
    return None if not found else (float(trend.step[found[-1][0]]), float(trend.step[found[-1][1]]))


def last_near_best(trend: Trend, until: float) -> float:
    """Last step up to one at which a signal is within its noise of its best by then."""
    before = trend.step <= until
    near = before & (trend.mean >= trend.mean[before].max() - trend.noise_sd)
    return float(trend.step[np.flatnonzero(near)[-1]])
