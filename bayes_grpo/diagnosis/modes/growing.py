"""Growth: the reward rises. Not a failure.

level now > best level before the last third of the rows, by 2% of the range
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray:
    path = view.reward
    before = np.arange(path.draws.shape[1]) * 2 // 3
    return path.recent > path.best_so_far[:, before] + THRESHOLDS.rises * path.span


def _text(view: RunView, first: float, last: float) -> str:
    begin, end = (interval(x) for x in view.reward.at(np.array([first, last])).T)
    if f"{begin.median:.2g}" == f"{end.median:.2g}":  # they read the same
        return ""
    return f"the reward changed from {span_text(begin, level=False)} to {span_text(end, level=False)}"


MODE = Mode("growing", _holds, _text, ("go on", "look again"), chances=Calibration(0.05, 0.3, 0.95), is_failure=False)
