"""Lost gradient: rows with a gradient norm of exactly 0 although their groups have nonzero reward variance.

    loss = −mean(ρ A) + β KL,     ρ: ratio of the new to the sampling policy, A: advantage

Groups with variance have nonzero advantages, so that their gradient cannot be zero: the update or its report is broken
(ms-swift issues 5571 and 5890, where a newer DeepSpeed was the remedy). A loss of 0 is another thing: with one update
a rollout ρ is 1, centered advantages average to 0, and no ratio leaves the clip range, while the gradient is not 0.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.diagnosis.logged import Logged
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.series import stretches


class LostGradient(Mode):
    """Zero gradient norm although groups have reward variance."""

    name = "lost_gradient"
    remedies = ("update path",)

    def strength(self, rows: RunSoFar) -> float:
        """Share of the last rows with spread whose gradient norm is exactly 0."""
        lost = lost_rows(rows)
        return np.nan if lost.rows < THRESHOLDS.trend_rows else lost.lately / THRESHOLDS.half

    def began(self, rows: RunSoFar) -> Interval | None:
        """Step of the first row of the last stretch of such rows."""
        lost = lost_rows(rows)
        return interval(lost.step[stretches(lost.value)[-1][0]]) if lost.rows and lost.value[-1] else None

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Number of such rows, and whether the reward rises all the same."""
        since = self.began(rows)
        lost = lost_rows(rows).between(first if since is None else min(first, since.median), last)
        if not lost.any():
            return ""
        why = "the reward rises all the same, so the norm is reported wrongly" if rows.rose else "the update is lost"
        return f"{int(lost.sum())} of {len(lost)} rows with reward variance have a gradient norm of exactly 0: {why}"


def lost_rows(rows: RunSoFar) -> Logged:
    """Of the rows whose groups have spread: whether the gradient norm is 0 at a positive learning rate."""
    flat = rows.without_spread(THRESHOLDS.half)
    norm, rate = (rows.signal(name) for name in ("grad_norm", "learning_rate"))
    kept = np.isin(norm.step, flat.step[flat.value == 0.0]) & ~np.isin(norm.step, rate.step[rate.value == 0.0])
    return Logged(norm.step[kept], norm.value[kept] == 0.0)


def zeros_of(rows: RunSoFar, run: Run) -> Finding | None:
    """A loss or clip ratio that reads as 0, by all rows, and what tells whether that is normal; None without one."""
    zero, numbers = [], dict[str, float]()
    for name in ("loss", "clip_ratio"):
        signal = rows.signal(name)
        many = int(np.sum(np.abs(signal.value) <= THRESHOLDS.reads_as_zero))
        if signal.rows >= THRESHOLDS.direct_rows and many >= THRESHOLDS.mostly_zero * signal.rows:
            zero.append(name)
            numbers |= {name: many, f"{name}_rows": signal.rows}
    if not zero or lost_rows(rows).lately > THRESHOLDS.half:
        return None
    updates, norm = run.settings.refresh_interval, rows.signal("grad_norm")
    if rows.idle.rows and (idle := float(rows.idle.value.mean())) > THRESHOLDS.half:
        numbers["idle"] = idle
    if float(updates.given or 1.0) > 1.0:
        numbers["updates"] = float(updates.value)
    if norm.rows >= THRESHOLDS.least_rows:
        numbers |= {"grad_norm": float(np.median(norm.value)), "grad_norm_most": float(norm.value.max())}
    return Finding(kind="reads_zero", signals=tuple(zero), numbers=numbers)


MODE = LostGradient()
