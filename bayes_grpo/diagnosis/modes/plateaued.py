"""Plateau: the reward no longer changes. Not a failure, but there are remedies.

|level now - level at the middle and at three quarters of the rows| < 4% of the range
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


class Plateaued(Mode):
    """A reward that has plateaued."""

    name = "plateaued"
    is_failure = False
    chances = Calibration(0.05, 0.3, 0.95)
    remedies = (
        "longer limit", "easier prompts", "raise rate", "more prompts", "mixed prompts", "read completions", "stop",
    )  # fmt: skip

    def holds(self, view: RunView) -> np.ndarray:
        """The last half of the rows up to each step stays within a small part of the range."""
        path = view.reward
        level = path.trailing
        place = np.arange(level.shape[1])
        near = THRESHOLDS.rests * path.span
        moved = [np.abs(level - level[:, place * part // 4]) for part in (2, 3)]
        return (moved[0] < near) & (moved[1] < near) & (place > 0)

    def text(self, view: RunView, first: float, last: float) -> str:
        """Mean reward of the episode."""
        return f"the reward is at {span_text(interval(view.reward.over(first, last)), level=False)}"


MODE = Plateaued()
