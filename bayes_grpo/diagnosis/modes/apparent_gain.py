"""Apparent gain: most of the rise of the reward comes from format, length or finishing, not from correctness.

    share of the rise that is not the task = Σ over such functions of w_i Δr_i  /  Δ total  >  one half

The names of the reward functions decide which kind each one is. With rollouts, the share is that of finishing and
format in their decomposition (`bayes_grpo.rollouts.decompose`).
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.modes.form_without_task import form_and_task
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray | None:
    """True where the reward has risen, mostly by form: by rollouts, else by the log."""
    gain = view.gain
    if gain is not None and not np.isnan(gain.p_form):
        formal = gain.p_form > THRESHOLDS.half and float(gain.form_share_at(view.steps[-1:])[0]) > THRESHOLDS.half
        return (view.rise > THRESHOLDS.material) & formal
    parts = _changes(view)
    if parts is None:
        return None
    form, task = (np.maximum(x, 0.0) for x in parts)
    rises = form + task > np.maximum(THRESHOLDS.material * view.reward.span, view.reward.noise)
    return rises & (form > THRESHOLDS.half * (form + task))


def _text(view: RunView, first: float, last: float) -> str:
    """Changes of form and task rewards."""
    gain = view.gain
    if gain is not None and gain.shares and gain.has_gain:
        best = max(gain.shares, key=lambda s: s.share.median)
        return f"{span_text(best.share, '.0%', level=False)} of the gain is {best.words}"
    parts = _changes(view)
    if parts is None:
        return ""
    form, task = (float(np.median(x[:, -1])) for x in parts)
    return f"format, length and finishing changed by {form:.2g}, the task reward by {task:.2g}"


def _changes(view: RunView) -> list[np.ndarray] | None:
    """Draws of the change so far of form and of the task, (draws, n) each; None where the log has not both."""
    kinds = form_and_task(view)
    weighted = [
        [view.weight_of(name) * (view.on_grid(path) - path.start[:, None]) for name, path in paths.items()]
        for paths in kinds
    ]
    return [np.sum(x, axis=0) for x in weighted] if all(kinds) else None


MODE = Mode("apparent_gain", _holds, _text, ("judge by task", "read completions"))
