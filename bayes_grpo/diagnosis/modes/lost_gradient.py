"""Lost gradient: rows with a gradient norm of exactly 0 although their groups have nonzero reward variance.

Such groups have nonzero advantages, so the gradient cannot be zero: the update or its report is broken. Public reports
of it: ms-swift 5571 and 5890, where a newer DeepSpeed was the remedy.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import NOTHING, Logged, RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends


class LostGradient(Mode):
    """Zero gradient norm although groups have reward variance."""

    name = "lost_gradient"
    label = "zero gradient norm despite reward variance"
    remedies = ("update path", "trainable weights")

    def strength(self, rows: RunSoFar) -> float:
        """Share of the last rows with spread whose gradient norm is exactly 0."""
        lost = lost_rows(rows)
        if lost.rows < THRESHOLDS.trend_rows:
            return np.nan
        return float(lost.value[-THRESHOLDS.trend_rows :].mean()) / THRESHOLDS.half

    def began(self, rows: RunSoFar) -> Interval | None:
        """Step of the first row of the last stretch of such rows."""
        lost = lost_rows(rows)
        if not lost.rows or not lost.value[-1]:
            return None
        live = np.flatnonzero(~lost.value)
        step = float(lost.step[live[-1] + 1 if len(live) else 0])
        return Interval(step, step, step, LEVEL)

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float) -> str:
        """Number of such rows, and whether the reward rises all the same."""
        since = self.began(rows)
        lost = lost_rows(rows).between(first if since is None else min(first, since.median), last)
        if not lost.any():
            return ""
        why = "the reward rises all the same, so the norm is reported wrongly" if rows.rose else "the update is lost"
        return f"{int(lost.sum())} of {len(lost)} rows with reward variance have a gradient norm of exactly 0: {why}"


def lost_rows(rows: RunSoFar) -> Logged:
    """Of the rows whose groups have spread: whether the gradient norm is 0 at a positive learning rate."""
    norm, share, spread = (
        rows.signals.get(name, NOTHING) for name in ("grad_norm", "frac_reward_zero_std", "reward_std")
    )
    if share.rows >= THRESHOLDS.least_rows:
        with_spread = share.step[share.value < THRESHOLDS.half]
    elif spread.rows >= THRESHOLDS.least_rows and not rows.uses_eval:
        largest = max(float(np.abs(rows.reward.value).max()), 1e-9)
        with_spread = spread.step[spread.value > THRESHOLDS.dead_spread * largest]
    else:
        return NOTHING
    rate = rows.signals.get("learning_rate", NOTHING)
    kept = np.isin(norm.step, with_spread) & ~np.isin(norm.step, rate.step[rate.value == 0.0])
    return Logged(norm.step[kept], norm.value[kept] == 0.0)


MODE = LostGradient()
