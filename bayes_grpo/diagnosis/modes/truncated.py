"""Truncation: completions hit the length limit, so the scored ending is missing.

share of truncated completions > one half
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


class Truncated(Mode):
    """Truncated completions."""

    name = "truncated_completions"
    remedies = ("longer limit", "read completions")

    def holds(self, view: RunView) -> np.ndarray | None:
        """Most completions hit the length limit."""
        cut = view.signal("completions_clipped_ratio")
        return None if cut is None else view.on_grid(cut) > THRESHOLDS.half

    def text(self, view: RunView, first: float, last: float) -> str:
        """Mean share of truncated completions, and the range of the rows."""
        rows = view.logged("completions_clipped_ratio").between(first, last)
        if not len(rows):
            return ""
        low, high = np.quantile(rows, (0.05, 0.95))
        spread = "" if high - low < THRESHOLDS.rises else f" (rows from {low:.0%} to {high:.0%})"
        return f"{rows.mean():.0%} of the completions hit the length limit{spread}"


MODE = Truncated()
