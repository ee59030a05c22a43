"""Lost values: rows in which a signal that every other row has is not a number, as after an overflow."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.rows import always_logged, lost_rows, near_rows
from bayes_grpo.events.waste import dead_share

_EVERY_ROW = ("reward", "loss", "grad_norm")
"""Signals that a trainer logs in every row, or in none."""


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
        """Share of rows that lost a value; None where no signal is logged in nearly every row."""
        lost = _lost(trends)
        if lost is None:
            return None
        found = quantity("lost_rows", dead_share(lost), "", "share of rows with a value that is not a number")
        said = f"{int(lost.sum())} of {len(lost)} rows have no number for {' and '.join(_which(trends))}"
        return ModeEvidence(self.name, float(lost.any()), (found,), tuple(_which(trends)), (), said)


def _columns(trends: RunTrends) -> dict[str, np.ndarray]:
    """Signals that nearly every row has, by name."""
    run = trends.run
    known = {name: run.reward if name == "reward" else run.signals.get(name) for name in _EVERY_ROW}
    return {k: v for k, v in known.items() if v is not None and always_logged(v, BORDERS.always_logged)}


def _which(trends: RunTrends) -> list[str]:
    return [name.replace("_", " ") for name, values in _columns(trends).items() if lost_rows(values).any()]


def _lost(trends: RunTrends) -> np.ndarray | None:
    """Rows with a lost value, shape (rows,); None where none is lost."""
    columns = _columns(trends)
    lost = np.logical_or.reduce([lost_rows(v) for v in columns.values()]) if columns else np.zeros(0, bool)
    end = len(lost) - 1 - int(np.argmax(~lost[::-1])) if not lost.all() else -1
    if len(lost) - 1 - end < BORDERS.least_rows:  # the last row may be a summary, which logs other things
        lost[end + 1 :] = False
    return lost if lost.any() else None


def lost_at_end(trends: RunTrends) -> tuple[str, ...]:
    """Signals without a number in all of the last rows."""
    last = {name: lost_rows(v)[-BORDERS.least_rows :] for name, v in _columns(trends).items()}
    return tuple(name for name, lost in last.items() if len(lost) >= BORDERS.least_rows and lost.all())


MODE = LostValues()
