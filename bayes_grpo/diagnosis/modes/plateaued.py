"""Plateau: the reward no longer changes. Not a failure, but there are remedies.

|level now - level at the middle and at three quarters of the rows| < 4% of the range,

and not a rise of 5% of the range whose last half goes on at half its mean pace or more: that is slow, but no rest.
Nor does a reward rest that fell since then by what is named as a fall, a tenth of its best and 2% of the range.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray:
    path = view.reward
    level = path.trailing
    place = np.arange(level.shape[1])
    near = THRESHOLDS.rests * path.span
    late = level - level[:, place // 2]
    last = level - level[:, place * 3 // 4]
    gain = level - path.start[:, None]
    goes_on = (gain > THRESHOLDS.material * path.span) & (late > THRESHOLDS.half * 0.5 * gain)
    fall = -np.minimum(late, last)
    falls = (fall >= THRESHOLDS.fell * (path.best_so_far - path.floor)) & (fall >= THRESHOLDS.rises * path.span)
    return (np.abs(late) < near) & (np.abs(last) < near) & ~goes_on & ~falls & (place > 0)


def _text(view: RunView, first: float, last: float) -> str:
    return f"the reward is at {span_text(interval(view.reward.over(first, last)), level=False)}"


MODE = Mode(
    "plateaued",
    _holds,
    _text,
    (
        "longer limit",
        "scorer",
        "easier prompts",
        "raise rate",
        "more prompts",
        "mixed prompts",
        "harder prompts",
        "read completions",
        "stop",
    ),
    chances=Calibration(0.05, 0.3, 0.95),
    is_failure=False,
)
