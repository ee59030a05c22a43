"""Lost values: rows in which the trainer wrote NaN or an infinity. A value that was not logged is another thing."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends


class LostValues(Mode):
    """Rows with NaN or infinite values."""

    name = "lost_values"
    label = "values that are not numbers"
    remedies = ("precision", "find batch", "lower rate")

    def strength(self, rows: RunSoFar) -> float:
        """Whether one of the last rows has lost a value: infinite, or 0."""
        if not rows.nan:
            return np.nan
        return np.inf if any(x.value[-rows.block :].any() for x in rows.nan.values()) else 0.0

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float) -> str:
        """How many rows, and of which signals."""
        inside = [x.between(first, last) for x in rows.nan.values()]
        lost = np.logical_or.reduce(inside)
        names = " and ".join(name.replace("_", " ") for name in rows.nan)
        return f"{int(lost.sum())} of {len(lost)} rows have no number for {names}" if lost.any() else ""


def lost_at_end(rows: RunSoFar) -> tuple[str, ...]:
    """Signals without a number in all of the last rows."""
    last = {name: x.value[-THRESHOLDS.least_rows :] for name, x in rows.nan.items()}
    return tuple(name for name, lost in last.items() if len(lost) >= THRESHOLDS.least_rows and lost.all())


MODE = LostValues()
