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
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.series import stretches

_WHY = {
    "loss": ("centered advantages average to 0", "the ratios stay near 1"),
    "clip_ratio": ("every ratio is 1", "no ratio leaves the clip range"),
}
"""Why each is 0 with one update a rollout, and with several."""


class LostGradient(Mode):
    """Zero gradient norm although groups have reward variance."""

    name = "lost_gradient"
    label = "zero gradient norm despite reward variance"
    remedies = ("update path",)

    def strength(self, rows: RunSoFar) -> float:
        """Share of the last rows with spread whose gradient norm is exactly 0."""
        lost = lost_rows(rows)
        return np.nan if lost.rows < THRESHOLDS.trend_rows else lost.lately / THRESHOLDS.half

    def began(self, rows: RunSoFar) -> Interval | None:
        """Step of the first row of the last stretch of such rows."""
        lost = lost_rows(rows)
        return interval(lost.step[stretches(lost.value)[-1][0]]) if lost.rows and lost.value[-1] else None

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
    flat = rows.without_spread(THRESHOLDS.half)
    norm, rate = (rows.signal(name) for name in ("grad_norm", "learning_rate"))
    kept = np.isin(norm.step, flat.step[flat.value == 0.0]) & ~np.isin(norm.step, rate.step[rate.value == 0.0])
    return Logged(norm.step[kept], norm.value[kept] == 0.0)


def zeros_text(rows: RunSoFar, run: Run) -> str:
    """Whether a loss or clip ratio that reads as 0 is normal, by all rows; "" where neither reads as 0."""
    zero = {}
    for name in _WHY:
        signal = rows.signal(name)
        many = int(np.sum(np.abs(signal.value) <= THRESHOLDS.reads_as_zero))
        if signal.rows >= THRESHOLDS.direct_rows and many >= THRESHOLDS.mostly_zero * signal.rows:
            zero[name] = f"the {name.replace('_', ' ')} is 0 in {many} of {signal.rows} rows"
    if not zero or lost_rows(rows).lately > THRESHOLDS.half:
        return ""
    shown, whys = " and ".join(zero.values()), [_WHY[name] for name in zero]
    if rows.idle.rows and rows.idle.value.mean() > THRESHOLDS.half:
        return f"{shown}: most rows have no group with reward variance, so their gradient is 0 too"
    updates = run.settings.refresh_interval
    if float(updates.given or 1.0) > 1.0:
        return f"{shown}. With {updates.value:g} updates a rollout that means small updates: {whys[0][1]}"
    why = f"{shown}. That is normal with one update a rollout: {' and '.join(one for one, _ in whys)}"
    norm = rows.signal("grad_norm")
    if norm.rows < THRESHOLDS.least_rows:
        return f"{why}. Log the gradient norm: it should be above 0"
    if not np.any(norm.value > 0.0):
        return f"{shown}, and so is the gradient norm in every row: nothing is learned"
    return f"{why}. The gradient norm is not 0 (median {np.median(norm.value):.2g})"


MODE = LostGradient()
