"""Policy concentration (entropy collapse): the entropy vanishes before the reward is earned.

    entropy < a tenth of its start,  reward below the middle of its range and not risen

What counts is the entropy's decline relative to its start and to the reward gained, never its value: a solved task ends
with little entropy (Cui et al. 2025, https://arxiv.org/abs/2505.22617).
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray | None:
    entropy = view.signal("entropy")
    if entropy is None or view.logged("entropy").value.min() < 0.0:
        return None
    spent = view.on_grid(entropy) < THRESHOLDS.spent * entropy.start[:, None]
    earned = (view.level > THRESHOLDS.half) | (view.rise > THRESHOLDS.material)
    return spent & ~earned


def _text(view: RunView, first: float, last: float) -> str:
    entropy = view.signal("entropy")
    if entropy is None:
        return ""
    ratio = interval(entropy.at(np.array([last]))[:, 0] / entropy.start)
    spec, of = (".3g", "times") if ratio.high > THRESHOLDS.grew else (".0%", "of")
    return f"the entropy is {span_text(ratio, spec, level=False)} {of} its starting value"


MODE = Mode(
    "policy_concentration",
    _holds,
    _text,
    ("compare resume", "go back", "entropy term", "lower rate", "KL term", "compare checkpoints"),
    wants=("entropy",),
    chances=Calibration(0.01, 0.02, 0.75),
)
