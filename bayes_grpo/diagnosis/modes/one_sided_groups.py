"""One-sided groups: most are solved whole, or most are failed whole. Neither has a spread; they need opposite prompts.

Where a log counts groups without spread and not of which kind, the prompts' Beta law that gives their number at the
reward's level (`bayes_grpo.diagnosis.groups`) says how many are of either kind: E[p^G] and E[(1 - p)^G].
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity, span_text
from bayes_grpo.diagnosis.groups import group_size_of, sides_of
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends


class OneSidedGroups(Mode):
    """Prompts that are too easy, or too hard, for most groups to differ."""

    name = "one_sided_groups"
    label = "prompts too easy or too hard"
    signals = ("frac_reward_zero_std",)
    is_measured = True

    def measured(self, trends: RunTrends) -> np.ndarray | None:
        """Whether groups of one kind are most of all groups."""
        sides = _sides(trends)
        return None if sides is None else np.maximum(*sides) > THRESHOLDS.one_sided

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How many groups are of either kind."""
        return _told(trends, (trends.reward.step >= first) & (trends.reward.step <= last))

    def evidence(self, trends: RunTrends) -> ModeEvidence | None:
        """Shares of both kinds at the end; None where the log has no such share, or the reward no range."""
        sides = _sides(trends)
        if sides is None:
            return None
        right, wrong = (side[:, -1] for side in sides)
        found = (
            quantity("all_right", right, "", "share of groups that are all correct, at the end of the log"),
            quantity("all_wrong", wrong, "", "share of groups that are all wrong, at the end of the log"),
        )
        p = float(np.mean(np.maximum(right, wrong) > THRESHOLDS.one_sided))
        last = np.arange(len(trends.reward.step)) == len(trends.reward.step) - 1
        return ModeEvidence(self.name, p, found, ("frac_reward_zero_std",), (), _told(trends, last))


def _sides(trends: RunTrends) -> tuple[np.ndarray, np.ndarray] | None:
    """Draws of the shares of groups that are all correct and all wrong at each row of the trend, (draws, n) each."""
    trend = trends.signals.get("frac_reward_zero_std")
    if trend is None or not trends.has_range or trends.uses_eval:
        return None
    share = np.clip(trend.at(trends.reward.step), 0.0, THRESHOLDS.dead_groups)
    level = np.clip(trends.share(trends.reward.draws), THRESHOLDS.least_rate_ahead, 1.0 - THRESHOLDS.least_rate_ahead)
    return sides_of(share, level, group_size_of(trends.run.settings.group_size))


def _told(trends: RunTrends, inside: np.ndarray) -> str:
    sides = _sides(trends)
    if sides is None or not inside.any():
        return ""
    right, wrong = (span_text(interval(side[:, inside].mean(axis=1)), ".0%") for side in sides)
    return f"{right} of the groups are all correct, {wrong} all wrong"


MODE = OneSidedGroups()
