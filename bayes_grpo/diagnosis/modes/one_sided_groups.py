"""One-sided groups: most groups have equal rewards, and at this level they are all correct, or all wrong.

    share of groups without variance > 70%,  level > 70% or < 20% of the range

Both have zero variance; the remedies differ.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.modes.advantage_degeneracy import enough_rows, prompts_text
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray | None:
    share = view.signal("frac_reward_zero_std")
    if share is None or not view.paths.ends.bounded or view.paths.uses_eval:
        return None
    one_sided = (view.level > THRESHOLDS.near_top) | (view.level < THRESHOLDS.hard)
    return (view.on_grid(share) > THRESHOLDS.waste) & one_sided & enough_rows(view)


def _text(view: RunView, first: float, last: float) -> str:
    blame = prompts_text(view, last)
    if view.idle is None or not blame:
        return ""
    share = interval(view.idle.over(first, last))
    return f"{span_text(share, '.0%', level=False)} of the groups have zero reward variance: {blame}"


MODE = Mode("one_sided_groups", _holds, _text, ("harder prompts", "easier prompts", "mixed prompts"))
