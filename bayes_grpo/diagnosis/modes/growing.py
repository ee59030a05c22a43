"""Growth: the reward rises. Not a failure."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends


class Growing(Mode):
    """A reward that rises."""

    name = "growing"
    is_failure = False
    chances = Calibration(0.05, 0.3, 0.9)
    remedies = ("go on", "look again")

    def strength(self, rows: RunSoFar) -> float:
        """The last third of the rows lies above all earlier ones, or the end above the start, beyond noise."""
        y = rows.reward
        if y.rows < THRESHOLDS.least_rows:
            return np.nan
        late, size = rows.late_change, min(max(THRESHOLDS.least_rows, y.rows // THRESHOLDS.thirds), y.rows // 2)
        earlier = np.convolve(y.value[:-size], np.ones(size) / size, "valid").max()  # a way back to it is no rise
        new = min(late, float(y.value[-size:].mean() - earlier) / y.change(0)[1])
        goes_on = y.since_best < y.window and new > THRESHOLDS.half  # a rise long ago is no rise now
        return max(new, rows.rise if goes_on else 0.0, 0.0)

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Reward at the start and the end of the episode; "" for a small part of its range in the log."""
        begin, end = (interval(x) for x in trends.reward.at(np.array([first, last])).T)
        least = THRESHOLDS.described * float(np.ptp(rows.reward.means))
        if end.median - begin.median <= least or f"{begin.median:.2g}" == f"{end.median:.2g}":
            return ""
        return f"the reward changed from {span_text(begin, level=level)} to {span_text(end, level=False)}"


MODE = Growing()
