"""Idle steps: groups or rows without reward variance, which cost time and give no gradient.

share of groups without variance > 35%
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.path import SignalPath, fit_path
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray | None:
    path = dead_path(view)
    return None if path is None else view.on_grid(path) > THRESHOLDS.idle


def _dates(view: RunView, after: float, last: float) -> tuple[float, float] | None:
    """The first and the last such row of a stretch: the row is known, whatever the path around it."""
    rows = _dead_rows(view)
    dead = rows.step[(rows.value > 0.0) & (rows.step > after) & (rows.step <= last)]
    return (float(dead[0]), float(dead[-1])) if len(dead) else None


def _text(view: RunView, first: float, last: float) -> str:
    rows = _dead_rows(view)
    inside = (rows.step >= first) & (rows.step <= last)
    dead = inside & (rows.value > 0.0)
    if not dead.any():
        return ""
    text = f"{int(dead.sum())} of {int(inside.sum())} rows have no reward variance"
    text += _at_an_end(view.reward.logged, rows.step[dead])
    seconds = view.logged("step_time")
    if not seconds.rows:
        return text
    hours = np.interp(rows.step, seconds.step, seconds.value) * np.interp(rows.step, view.run.step, view.run.window)
    hours = hours / 3600.0
    return f"{text}; they took {hours[dead].sum():.2g} of the run's {hours.sum():.2g} hours"


def dead_path(view: RunView) -> SignalPath | None:
    """Path of the share of rows without variance in any group; None where nothing tells."""
    rows = _dead_rows(view)
    return fit_path(rows.step, rows.value, seed=32, indicator=True)


def _at_an_end(y: Logged, dead: np.ndarray) -> str:
    """How many of the dead rows have the highest or the lowest reward of the log, where it is all or most of them."""
    if y.constant:
        return ""
    all_at = "all at" if len(dead) > 1 else "at"
    lowest = np.isin(dead, y.step[y.value == y.value.min()])
    if np.isin(dead, y.step[y.value == y.value.max()]).all():
        return f", {all_at} the highest reward of the log ({y.value.max():.3g})"
    if lowest.all():
        return f", {all_at} the lowest reward of the log ({y.value.min():.3g})"
    if lowest.mean() > THRESHOLDS.half:
        return f", {int(lowest.sum())} of them at the lowest reward of the log ({y.value.min():.3g})"
    return ""


def _dead_rows(view: RunView) -> Logged:
    """Which rows have no group with variance; without a signal for it, whose mean reward is at an end of its range."""
    idle = view.idle_rows
    ends = view.paths.ends
    if idle.rows:
        return Logged(idle.step, (idle.value >= THRESHOLDS.dead_groups).astype(float))
    if view.paths.uses_eval or not ends.bounded:
        return idle
    y = view.reward.logged
    return Logged(y.step, np.isin(y.value, (ends.low, ends.high)).astype(float))


MODE = Mode(
    "idle_steps",
    _holds,
    _text,
    ("longer limit", "scorer", "mixed prompts", "larger groups", "harder prompts", "easier prompts"),
    dates=_dates,
)
