"""Lost values: rows in which the trainer wrote NaN or an infinity. A value that was not logged is another thing."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.near_rows import near_rows
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.diagnosis.waste import dead_share

_EVERY_ROW = ("reward", "loss", "grad_norm")
"""Signals whose NaN breaks the weights."""


class LostValues(Mode):
    """Rows with NaN or infinite values."""

    name = "lost_values"
    label = "values that are not numbers"
    is_measured = True

    def measured(self, trends: RunTrends) -> np.ndarray | None:
        """Whether a row near has lost a value."""
        lost = _lost(trends)
        return None if lost is None else near_rows(trends.run.step, lost, trends.reward.step)

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How many rows, and of which signals."""
        lost = _lost(trends)
        if lost is None:
            return ""
        inside = (trends.run.step >= first) & (trends.run.step <= last)
        count, of = int(np.sum(lost & inside)), int(inside.sum())
        return f"{count} of {of} rows have no number for {' and '.join(_which(trends))}" if count else ""

    def evidence(self, trends: RunTrends) -> ModeEvidence | None:
        """Share of rows that lost a value; None where there is none."""
        lost = _lost(trends)
        if lost is None:
            return None
        found = quantity("lost_rows", dead_share(lost), "", "share of rows with a value that is not a number")
        said = f"{int(lost.sum())} of {len(lost)} rows have no number for {' and '.join(_which(trends))}"
        return ModeEvidence(self.name, float(lost.any()), (found,), tuple(_which(trends)), (), said)


def _columns(trends: RunTrends) -> dict[str, np.ndarray]:
    """Signals with a value that is no number → the rows in which the trainer wrote it, shape (rows,)."""
    masks = {name: trends.run.not_finite(name) for name in _EVERY_ROW}
    return {name: lost for name, lost in masks.items() if lost.any()}


def _which(trends: RunTrends) -> list[str]:
    return [name.replace("_", " ") for name in _columns(trends)]


def _lost(trends: RunTrends) -> np.ndarray | None:
    """Rows with a value that is no number, shape (rows,); None where there is none."""
    columns = list(_columns(trends).values())
    return np.logical_or.reduce(columns) if columns else None


def lost_at_end(trends: RunTrends) -> tuple[str, ...]:
    """Signals without a number in all of the last rows."""
    last = {name: lost[-THRESHOLDS.least_rows :] for name, lost in _columns(trends).items()}
    return tuple(name for name, lost in last.items() if len(lost) >= THRESHOLDS.least_rows and lost.all())


MODE = LostValues()
