"""Length collapse: completions shrink to a tenth of what they were.

    completion length < a tenth of its start

A policy that answers with one token has little entropy and earns what a guess earns.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray | None:
    length = view.signal("completion_length")
    return None if length is None else view.on_grid(length) < THRESHOLDS.spent * length.start[:, None]


def _text(view: RunView, first: float, last: float) -> str:
    length = view.paths.signals["completion_length"]
    start = float(np.median(length.start))
    end = float(np.median(length.at(np.array([last]))))
    return f"the completion length went from {start:.3g} to {end:.3g} tokens"


MODE = Mode("length_collapse", _holds, _text, ("read completions", "go back", "lower rate", "KL term"))
