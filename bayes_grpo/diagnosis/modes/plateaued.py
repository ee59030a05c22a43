"""Plateau: the reward no longer changes. Not a failure, but there are remedies."""

from __future__ import annotations

from bayes_grpo.common.intervals import span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends


class Plateaued(Mode):
    """A reward that has plateaued."""

    name = "plateaued"
    is_failure = False
    chances = Calibration(0.05, 0.3, 0.85)
    remedies = (
        "longer limit", "easier prompts", "raise rate", "more prompts", "mixed prompts", "read completions", "stop",
    )  # fmt: skip

    def strength(self, rows: RunSoFar) -> float:
        """Enough rows, and their last third lies no further from the middle one than noise takes it."""
        y = rows.reward
        if y.rows < THRESHOLDS.waste_rows:
            return 0.0
        return min(y.rows / THRESHOLDS.waste_rows, 2) / max(abs(rows.late_change), 0.5)

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Mean reward of the episode."""
        return f"the reward is at {span_text(trends.reward.over(first, last), level=level)}"


MODE = Plateaued()
