"""Idle steps: rows whose groups all have zero reward variance, and their cost in time."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.logged import Logged
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends


class IdleSteps(Mode):
    """Steps without reward variance."""

    name = "idle_steps"
    remedies = ("mixed prompts", "larger groups", "harder prompts", "easier prompts")

    def strength(self, rows: RunSoFar) -> float:
        """Share of the last rows that are idle."""
        return _idle(rows).lately / THRESHOLDS.dead

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Number of idle rows, and their time where it is logged."""
        idle, run = _idle(rows), trends.run
        if not idle.between(first, last).any():
            return ""
        end = int(np.searchsorted(idle.step, last, side="right"))
        begin = min(int(np.searchsorted(idle.step, first)), max(end - THRESHOLDS.trend_rows, 0))  # as strength looks
        dead = idle.value[begin:end] > 0.0
        text, seconds = f"{int(dead.sum())} of {len(dead)} rows have no reward variance", run.signals.get("step_time")
        if seconds is None or not np.isfinite(seconds).any():
            return text
        each = np.where(np.isfinite(seconds), seconds, np.nanmedian(seconds)) * run.window / 3600.0
        hours = np.interp(idle.step, run.step, each)
        spent = float(hours[begin:end][dead].sum())
        return f"{text}; they took {spent:.2g} of the run's {float(hours.sum()):.2g} hours"


def _idle(rows: RunSoFar) -> Logged:
    """Idle rows; without a signal for them, the rows whose mean reward is at an end of its range."""
    if rows.idle.rows or rows.uses_eval or not rows.ends.known:
        return rows.idle
    y = rows.reward
    return Logged(y.step, np.isin(y.value, rows.ends[:2]))


MODE = IdleSteps()
