"""One-sided groups: most groups are all correct, or most are all wrong. Both have zero variance; the remedies differ.

Where a log has only the share of zero-variance groups, a Beta distribution of the prompts' success rates splits it. Its
mean is the reward and its split matches the share: E[p^G] are all correct and E[(1 - p)^G] all wrong.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends

_RANGE = (-5.0, 5.0)  # of ln(a + b): from prompts that are solved or hopeless to prompts that are all alike
_HALVINGS = 40


class OneSidedGroups(Mode):
    """Prompts that are too easy, or too hard, for most groups to differ."""

    name = "one_sided_groups"
    remedies = ("harder prompts", "easier prompts", "mixed prompts")

    def strength(self, rows: RunSoFar) -> float:
        """Share of the groups that are of the larger kind, in rows enough for a verdict on them."""
        share = rows.signal("frac_reward_zero_std")
        if share.rows < THRESHOLDS.least_rows or not rows.ends.known or rows.uses_eval:
            return np.nan
        if share.rows < THRESHOLDS.waste_rows:
            return 0.0
        return float(np.maximum(*_sides(rows, np.array(share.now)))) / THRESHOLDS.one_sided

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """How many groups are of either kind."""
        share = trends.share_without_spread(first, last)
        if share is None:
            return ""
        right, wrong = map(interval, _sides(rows.until(last), share))
        others = span_text(wrong, ".0%", level=False)
        return f"{span_text(right, '.0%', level=level)} of the groups are all correct, {others} all wrong"


def _sides(rows: RunSoFar, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of groups that are all correct and all wrong where a share has no spread, at the reward's level."""
    level = float(np.clip(rows.level, THRESHOLDS.least_rate, 1.0 - THRESHOLDS.least_rate))
    return sides_of(np.clip(share, 0.0, THRESHOLDS.dead_groups), level, round(rows.group_size))


def sides_of(share: np.ndarray, success_rate: float, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of groups that are all correct and all wrong, by the Beta distribution that implies their sum.

    Its a + b is sought within e^±5 by bisection; a share that no such distribution gives gets the nearest.

    Args:
        share: Shares of zero-variance groups, any shape.
        success_rate: Mean success rate, in (0, 1).
        size: Completions a prompt, G.
    """
    i = np.arange(size)

    def both(log_sum: np.ndarray) -> list[np.ndarray]:
        s = np.exp(log_sum)[..., None]
        return [np.prod((s * p + i) / (s + i), axis=-1) for p in (success_rate, 1.0 - success_rate)]

    low, high = (np.full(np.shape(share), end) for end in _RANGE)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        more = sum(both(middle)) > share
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    right, wrong = both(0.5 * (low + high))
    part = right / np.maximum(right + wrong, 1e-300)
    return share * part, share * (1.0 - part)


MODE = OneSidedGroups()
