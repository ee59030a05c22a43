"""Engine gap: trainer and inference engine give the same tokens ever more different probabilities.

Trainers log the gap in different units, so it is compared with its own first rows.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import NOTHING, RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import span_text
from bayes_grpo.diagnosis.trends import RunTrends


class EngineGap(Mode):
    """Trainer and inference engine that part."""

    name = "engine_gap"
    label = "trainer and inference engine part"
    remedies = ("same engine", "lower rate")

    def strength(self, rows: RunSoFar) -> float:
        """Growth of the gap since the first rows."""
        gap = rows.signals.get("engine_mismatch", NOTHING)
        if gap.rows < THRESHOLDS.least_rows or gap.start <= 0.0:
            return np.nan
        return max(gap.now / gap.start - 1.0, 0.0) / (THRESHOLDS.engines - 1.0)

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float) -> str:
        """By how much it has grown."""
        path = trends.signals["engine_mismatch"].at(np.array([trends.reward.step[0], last]))
        return f"their gap is {span_text(interval(np.exp(path[:, 1] - path[:, 0])))} times that of the first rows"


MODE = EngineGap()
