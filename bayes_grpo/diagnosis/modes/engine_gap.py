"""Engine gap: trainer and inference engine give the same tokens ever more different probabilities.

Trainers log the gap in different units, so it is held against its own first rows.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.entropy import factor
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends

_MEANING = "mismatch of trainer and inference engine, end over start"


class EngineGap(Mode):
    """Trainer and inference engine that part."""

    name = "engine_gap"
    label = "trainer and inference engine part"
    signals = ("engine_mismatch",)
    is_measured = True

    def measured(self, trends: RunTrends) -> np.ndarray | None:
        """Whether the gap has grown beyond its border since the first row."""
        trend = trends.signals.get("engine_mismatch")
        if trend is None:
            return None
        path = trend.at(trends.reward.step)
        return path - path[:, :1] > np.log(THRESHOLDS.engines)

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """By how much it has grown."""
        path = trends.signals["engine_mismatch"].at(np.array([trends.reward.step[0], last]))
        return f"their gap is {span_text(interval(np.exp(path[:, 1] - path[:, 0])))} times that of the first rows"

    def evidence(self, trends: RunTrends) -> ModeEvidence | None:
        """Growth of the gap; None where it is not logged."""
        trend = trends.signals.get("engine_mismatch")
        if trend is None:
            return None
        grown = factor(trend)
        found = quantity("engine_mismatch_growth", grown, "", _MEANING)
        p = float(np.mean(grown > THRESHOLDS.engines))
        said = f"{_MEANING} {span_text(found.posterior)}"
        return ModeEvidence(self.name, p, (found,), ("engine_mismatch",), (), said)


MODE = EngineGap()
