"""One-sided groups: most groups are all correct, or most are all wrong. Both have zero variance; the remedies differ.

Where a log has only the share of zero-variance groups, a Beta distribution of the prompts' success rates splits it. Its
mean is the reward and its split matches the share: E[p^G] are all correct and E[(1 - p)^G] all wrong.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS

_RANGE = (-5.0, 5.0)  # of ln(a + b): from prompts that are solved or hopeless to prompts that are all alike
_HALVINGS = 40
_LEAST_RATE = 0.002  # a success rate that implies a share of one-sided groups is at least this far from 0 and 1


class OneSidedGroups(Mode):
    """Prompts that are too easy, or too hard, for most groups to differ."""

    name = "one_sided_groups"
    remedies = ("harder prompts", "easier prompts", "mixed prompts")

    def holds(self, view: RunView) -> np.ndarray | None:
        """Whether most groups are all correct, or most all wrong, for rows enough."""
        if view.signal("frac_reward_zero_std") is None or not view.paths.ends.known or view.paths.uses_eval:
            return None
        right, wrong = _sides(view)
        rows = np.searchsorted(view.reward.logged.step, view.reward.last_step, side="right")
        return (np.maximum(right, wrong) > THRESHOLDS.one_sided) & (rows >= THRESHOLDS.waste_rows)

    def text(self, view: RunView, first: float, last: float) -> str:
        """How many groups are of either kind."""
        if view.signal("frac_reward_zero_std") is None or not view.paths.ends.known:
            return ""
        inside = (view.steps >= first) & (view.steps <= last)
        if not inside.any():
            return ""
        right, wrong = (interval(x[:, inside].mean(axis=1)) for x in _sides(view))
        others = span_text(wrong, ".0%", level=False)
        return f"{span_text(right, '.0%', level=False)} of the groups are all correct, {others} all wrong"


def _sides(view: RunView) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the shares of groups that are all correct and all wrong, at the reward's mean level, (draws, n) each."""
    path = view.signal("frac_reward_zero_std")
    assert path is not None
    share = np.clip(view.on_grid(path), 0.0, THRESHOLDS.dead_groups)
    level = np.clip(view.level.mean(axis=0), _LEAST_RATE, 1.0 - _LEAST_RATE)
    part = np.array([_right_part(s, p, round(view.group_size)) for s, p in zip(share.mean(axis=0), level, strict=True)])
    return share * part, share * (1.0 - part)


def _right_part(share: float, success_rate: float, size: int) -> float:
    """Share of the one-sided groups that are all correct."""
    right, wrong = sides_of(np.array(share), success_rate, size)
    return float(right / max(float(right + wrong), 1e-300))


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
