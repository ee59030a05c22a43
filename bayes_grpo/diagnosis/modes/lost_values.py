"""Lost values: rows in which the trainer wrote NaN or an infinity. A value that was not logged does not count."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.trend import RunTrends


class LostValues(Mode):
    """Rows with NaN or infinite values."""

    name = "lost_values"
    remedies = ("precision", "find batch", "lower rate")

    def strength(self, rows: RunSoFar) -> float:
        """Infinite where one of the last rows has a NaN or infinite value, else 0."""
        if not rows.nan:
            return np.nan
        return np.inf if any(x.value[-rows.block :].any() for x in rows.nan.values()) else 0.0

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Number of such rows, and their signals."""
        inside = [x.between(first, last) for x in rows.nan.values()]
        lost = np.logical_or.reduce(inside)
        names = " and ".join(name.replace("_", " ") for name in rows.nan)
        return f"{int(lost.sum())} of {len(lost)} rows have a NaN or infinite value in {names}" if lost.any() else ""


MODE = LostValues()
