"""Trainer-inference mismatch: trainer and inference engine assign diverging probabilities to the same tokens.

Trainers log the mismatch in different units, so it is compared with its own first rows.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends


class EngineGap(Mode):
    """Growing mismatch of trainer and inference engine."""

    name = "engine_gap"
    remedies = ("same engine", "lower rate")

    def strength(self, rows: RunSoFar) -> float:
        """Growth of the mismatch since the first rows."""
        gap = rows.signal("engine_mismatch")
        if gap.rows < THRESHOLDS.least_rows or gap.start <= 0.0:
            return np.nan
        return max(gap.now / gap.start - 1.0, 0.0) / (THRESHOLDS.engines - 1.0)

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Growth factor of the mismatch."""
        grown = np.exp(trends.signals["engine_mismatch"].change(trends.reward.step[0], last))
        return f"the mismatch is {span_text(grown, level=level)} times that of the first rows"


MODE = EngineGap()
