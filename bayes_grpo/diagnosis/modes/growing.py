"""Growth: the reward rises. Not a failure.

level now > best level before the last third of the rows, by 2% of the range
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


class Growing(Mode):
    """A reward that rises."""

    name = "growing"
    is_failure = False
    chances = Calibration(0.05, 0.3, 0.95)
    remedies = ("go on", "look again")

    def holds(self, view: RunView) -> np.ndarray:
        """The reward lies above all that was before the last third of the rows up to each step."""
        path = view.reward
        before = np.arange(path.draws.shape[1]) * 2 // 3
        return path.recent > path.best_so_far[:, before] + THRESHOLDS.rises * path.span

    def text(self, view: RunView, first: float, last: float) -> str:
        """Reward at the start and the end of the episode; "" where they read the same."""
        begin, end = (interval(x) for x in view.reward.at(np.array([first, last])).T)
        if f"{begin.median:.2g}" == f"{end.median:.2g}":
            return ""
        return f"the reward changed from {span_text(begin, level=False)} to {span_text(end, level=False)}"


MODE = Growing()
