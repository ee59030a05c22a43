"""Lost values: rows in which the trainer wrote NaN or an infinity. A value that was not logged does not count.

a NaN in the last block of rows, for reward, loss or gradient norm
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.diagnosis.wording import signal_words
from bayes_grpo.signals.logged import Logged

_NAMED_STEPS = 3
"""Rows up to which their steps are named."""


def _holds(view: RunView) -> np.ndarray | None:
    if not view.nan:
        return None
    steps = np.concatenate([[-np.inf], view.reward.last_step[:-1], [np.inf]])
    found = [[bool(x.value[(x.step > a) & (x.step <= b)].any()) for a, b in pairwise(steps)] for x in view.nan.values()]
    return np.broadcast_to(np.any(found, axis=0), view.reward.draws.shape)


def _dates(view: RunView, after: float, last: float) -> tuple[float, float] | None:
    """Steps of the first and the last such row."""
    lost = np.concatenate([x.step[x.value > 0.0] for x in view.nan.values()])
    inside = lost[(lost > after) & (lost <= last)]
    return (float(inside.min()), float(inside.max())) if len(inside) else None


def _text(view: RunView, first: float, last: float) -> str:
    """Which signals, and at which steps where those are few, else in how many rows."""
    # A step of the view is the middle of a block of rows.
    first = -np.inf if first <= view.steps[0] else first
    last = np.inf if last >= view.last_step else last
    lost = {name: _steps_between(x, first, last) for name, x in view.nan.items()}
    lost = {name: steps for name, steps in lost.items() if len(steps)}
    if not lost:
        return ""
    names = " and ".join(signal_words(name) for name in lost)
    at = np.unique(np.concatenate([*lost.values()]))
    if len(at) > _NAMED_STEPS:
        rows = max(len(view.nan[name].between(first, last)) for name in lost)
        return f"{len(at)} of {rows} rows, from step {at[0]:g} to {at[-1]:g}, have a NaN or infinite value in {names}"
    *before, end = (f"{step:g}" for step in at)
    steps = f"steps {', '.join(before)} and {end}" if before else f"step {end}"
    return f"{names} {'was' if len(lost) == 1 else 'were'} not finite at {steps}"


def _steps_between(lost: Logged, first: float, last: float) -> np.ndarray:
    """Steps of the rows between two steps that have no number."""
    return lost.step[(lost.value > 0.0) & (lost.step >= first) & (lost.step <= last)]


MODE = Mode("lost_values", _holds, _text, ("precision", "find batch", "lower rate"), dates=_dates)
