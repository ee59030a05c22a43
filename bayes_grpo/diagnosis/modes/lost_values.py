"""Lost values: rows in which the trainer wrote NaN or an infinity. A value that was not logged does not count.

a NaN in the last block of rows, for reward, loss or gradient norm
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView


class LostValues(Mode):
    """Rows with NaN or infinite values."""

    name = "lost_values"
    remedies = ("precision", "find batch", "lower rate")

    def holds(self, view: RunView) -> np.ndarray | None:
        """Whether the rows around each step have a NaN or infinite value."""
        if not view.nan:
            return None
        steps = np.concatenate([[-np.inf], view.reward.last_step[:-1], [np.inf]])
        found = [
            [bool(x.value[(x.step > a) & (x.step <= b)].any()) for a, b in pairwise(steps)] for x in view.nan.values()
        ]
        return np.broadcast_to(np.any(found, axis=0), view.reward.draws.shape)

    def dates(self, view: RunView, after: float, last: float) -> tuple[float, float] | None:
        """Steps of the first and the last such row."""
        lost = np.concatenate([x.step[x.value > 0.0] for x in view.nan.values()])
        inside = lost[(lost > after) & (lost <= last)]
        return (float(inside.min()), float(inside.max())) if len(inside) else None

    def text(self, view: RunView, first: float, last: float) -> str:
        """Number of such rows, and their signals."""
        # A step of the view is the middle of a block of rows.
        first = -np.inf if first <= view.steps[0] else first
        last = np.inf if last >= view.last_step else last
        inside = [x.between(first, last) for x in view.nan.values()]
        lost = np.logical_or.reduce(inside)
        names = " and ".join(name.replace("_", " ") for name in view.nan)
        return f"{int(lost.sum())} of {len(lost)} rows have a NaN or infinite value in {names}" if lost.any() else ""


MODE = LostValues()
