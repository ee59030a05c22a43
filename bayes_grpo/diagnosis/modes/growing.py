"""Growth: the reward rises. No failure: what a history of a run tells beside its failures."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.evidence import span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends


class Growing(Mode):
    """A reward that rises."""

    name = "growing"
    label = "growing"
    is_failure = False
    is_defined = True

    def strength(self, rows: RunSoFar) -> float:
        """The last third of the rows lies above the middle one, or the end above the start, beyond noise."""
        return _rising(rows)

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How the reward moved over it."""
        trend = trends.reward
        ends = trend.at(np.array([first, last]))
        return (
            f"the reward goes from {span_text(interval(ends[:, 0]), '.2g')} to {span_text(interval(ends[:, 1]), '.2g')}"
        )


def _rising(rows: RunSoFar) -> float:
    """The change over the last rows, over what counts as a rise."""
    y = rows.reward
    if y.rows < THRESHOLDS.least_rows:
        return np.nan
    return max(rows.late_change, rows.rise if y.since_best < y.window else 0.0, 0.0)


MODE = Growing()
