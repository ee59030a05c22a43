"""Loss of a reward's gain or level, at every row and at the last one.

Forecast, decision and fit use this module, and it uses the rule of the diagnosis for the last row. So all of them agree
on whether a reward is lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.rows import Logged, lost_strength
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import Trend, stretches


def started_high(start: np.ndarray | float, best: np.ndarray | float, low: float = 0.0) -> np.ndarray:
    """Whether most of a signal's level was there from the start.

    Args:
        start: Where it began, any shape.
        best: Its best so far, likewise.
        low: Lowest value, from which levels are counted; minus infinity where it is unknown.
    """
    return np.asarray(start) - low > THRESHOLDS.started_high * (np.asarray(best) - low)


def at_stake(start: np.ndarray | float, best: np.ndarray | float, low: float = 0.0) -> np.ndarray:
    """What a signal can lose: its level where it started high, else what it gained; arguments as in `started_high`."""
    return np.where(started_high(start, best, low), np.asarray(best) - low, np.asarray(best) - start)


def least_loss(stake: np.ndarray | float) -> np.ndarray:
    """The smallest fall that is a collapse of what was at stake, of the same shape."""
    return THRESHOLDS.lost * np.asarray(stake)


def lost(fall: np.ndarray, stake: np.ndarray | float, material: float) -> np.ndarray:
    """Whether a fall is a collapse.

    Args:
        fall: How far the signal is below its best, any shape.
        stake: What it had to lose, likewise.
        material: Fall below which none matters.
    """
    return (fall > least_loss(stake)) & (fall > material)


def lost_at(trend: Trend, span: float, low: float = np.nan) -> np.ndarray:
    """Whether a reward is lost at each of its rows, by the rows up to it (`rows.lost_strength`), shape (n,).

    Args:
        trend: Of a reward.
        span: Its range.
        low: Lowest reward; NaN if unknown.
    """
    rows = Logged(trend.raw_step, trend.raw)
    past = [rows.until(step) for step in trend.step]
    return np.array([lost_strength(y, low, low + span, THRESHOLDS.trend_rows) > 1.0 for y in past])


def rows_collapsed(y: np.ndarray) -> bool:
    """Whether a reward has collapsed at its end, by means of its rows, where no trend is at hand.

    Args:
        y: Rewards, shape (n,).
    """
    size = min(len(y), max(THRESHOLDS.least_rows, len(y) // THRESHOLDS.end_part_ahead))
    means = np.convolve(y, np.full(size, 1.0 / size), mode="valid")
    best, end, start = float(means.max()), float(means[-1]), float(means[0])
    error = float(np.std(np.diff(y))) / np.sqrt(float(size))  # of the difference of two means
    return bool(lost(np.asarray(best - end), at_stake(start, best), max(THRESHOLDS.noise_of_means * error, 1e-12)))


class Fallen(NamedTuple):
    """A reward that is lost at the last row of a log.

    Attributes:
        best_step: Last step at which it was near its best.
        best: What it was there, reward.
        now: Where it stands.
        saved_step: Step of the checkpoint to go back to: of the best held-out score where one is logged, else
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
    """What a reward has lost at its last row, by the rule of the diagnosis (`rows.lost_strength`); None if it has not.

    Args:
        trend: Of the reward.
        span: Its range.
        low: Lowest reward; NaN if unknown.
        held_out_best: Step of the best held-out score; None where none is logged.
    """
    rows = Logged(trend.raw_step, trend.raw)
    if lost_strength(rows, low, low + span, THRESHOLDS.trend_rows) <= 1.0:
        return None
    lost = last_lost(trend, span, low)
    first = rows if lost is None or lost[1] < trend.step[-1] else rows.until(lost[0])
    step = last_near_best(trend, float(first.step[int(first.means.argmax()) + first.window - 1]))
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
