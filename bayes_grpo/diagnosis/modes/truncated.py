"""Truncation: completions hit the length limit, so the scored ending is missing.

share of truncated completions > one half
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray | None:
    cut = view.signal("completions_clipped_ratio")
    return None if cut is None else view.on_grid(cut) > THRESHOLDS.half


def _text(view: RunView, first: float, last: float) -> str:
    rows = view.logged("completions_clipped_ratio").between(first, last)
    if not len(rows):  # an episode may lie between two rows that log the share
        return ""
    low, high = np.quantile(rows, (0.05, 0.95))
    spread = "" if high - low < THRESHOLDS.rises else f" (rows from {low:.0%} to {high:.0%})"
    return f"{rows.mean():.0%} of the completions hit the length limit{spread}"


MODE = Mode("truncated_completions", _holds, _text, ("longer limit", "read completions"))
