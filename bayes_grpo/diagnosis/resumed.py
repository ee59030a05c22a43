"""A fall that begins where the training was resumed: the resume is its first suspect.

A resume loads weights and may lose the rest: the optimizer's moments, the place in the learning-rate schedule, the
order of the data, the reference policy. What the log shows of these is compared over the rows before and after it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.mode import failure_names
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.timeline import Timeline
from bayes_grpo.logs.run import Run

_COMPARED = ("learning_rate", "grad_norm", "kl", "entropy", "completion_length")
"""Signals that a faulty resume changes at once."""


class Resume(NamedTuple):
    """A resume at which failures under way begin.

    Attributes:
        step: Its step.
        modes: Failures whose onset covers it.
        changes: What else changed there, a clause each.
    """

    step: float
    modes: tuple[str, ...]
    changes: tuple[str, ...]


def resume_behind(timeline: Timeline, rows: RunSoFar, run: Run) -> Resume | None:
    """The last resume of a run at which a failure under way begins, by all rows; None where none does."""
    y = rows.reward
    slack = min(y.window // 2, THRESHOLDS.trend_rows) * float(np.median(np.diff(y.step))) if y.rows > 1 else 0.0
    for step in sorted(run.resumes, reverse=True):
        found = (e for e in timeline.probable(over=False) if e.onset.low - slack <= step <= e.onset.high)
        modes = tuple(e.mode for e in found if e.mode in failure_names())
        if modes and step > y.step[0]:
            return Resume(step, modes, changes_at(run, step))
    return None


def changes_at(run: Run, step: float) -> tuple[str, ...]:
    """Signals whose median over six rows changed at a step by a factor that counts, a clause each."""
    out, size = [], THRESHOLDS.trend_rows // 2
    for key in _COMPARED:
        values = run.values(key)
        known = np.isfinite(values)
        sides = values[known & (run.step < step)][-size:], values[known & (run.step >= step)][:size]
        if min(map(len, sides)) < THRESHOLDS.least_rows:
            continue
        before, after = (float(np.median(np.abs(x))) for x in sides)
        if max(before, after) > THRESHOLDS.resumed * min(before, after):
            out.append(f"the {key.replace('_', ' ')} went from {before:.2g} to {after:.2g}")
    return tuple(out)


def near_resume(run: Run, step: float) -> float | None:
    """The resume at or at most two rows before a step; None without."""
    first = run.step[max(int(np.searchsorted(run.step, step)) - 2, 0)]  # of a row of the run
    return max((s for s in run.resumes if first <= s <= step), default=None)
