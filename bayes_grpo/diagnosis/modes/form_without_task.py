"""Form without the task: the reward consists of format, length and number rewards while the task's own is near 0.

    every component of the task < a tenth of its range,  form makes up most of the reward

Such a total can stand high and at rest, and is then neither solved nor at its ceiling.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.logs.reward_parts import is_form, is_task
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray | None:
    form, task = form_and_task(view)
    if not task or not form:
        return None
    dead = np.all([view.on_grid(x) < THRESHOLDS.fell * _height(x) for x in task.values()], axis=0)
    formal = np.sum([view.weight_of(name) * view.on_grid(x) for name, x in form.items()], axis=0)
    return dead & (formal > THRESHOLDS.half * np.maximum(view.reward.recent, 0.0)) & (formal > 0.0)


def _text(view: RunView, first: float, last: float) -> str:
    _, task = form_and_task(view)
    levels = [f"{plain(name, 40)} is at {round(float(np.median(x.now)), 3):.2g}" for name, x in task.items()]
    return f"{', '.join(levels)} of {max(_height(x) for x in task.values()):.2g}" if levels else ""


def form_and_task(view: RunView) -> list[dict[str, SignalPath]]:
    """Components of form and components of the task, by their names; a name that says neither may be either."""
    return [{name: x for name, x in view.paths.components.items() if kind(name)} for kind in (is_form, is_task)]


def _height(path: SignalPath) -> float:
    """Highest value that a component can plausibly have: 1, or the highest that was logged."""
    return max(1.0, float(path.logged.value.max()))


MODE = Mode("form_without_task", _holds, _text, ("judge by task", "easier prompts", "read completions"))
