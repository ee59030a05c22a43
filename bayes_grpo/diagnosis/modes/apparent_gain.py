"""Apparent gain: most of the rise of the reward is format, length or finishing, and not the task.

    share of the rise that is not the task = Σ over such functions of w_i Δr_i  /  Δ total

The reward functions are told apart by their names, which is all that a log has. Where rollouts are given, the share is
that of finishing and format in their decomposition (`bayes_grpo.rollouts.decompose`).
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.components import weights_of
from bayes_grpo.diagnosis.evidence import EvidenceQuantity, ModeEvidence, quantity, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.naming import is_form, is_task


class ApparentGain(Mode):
    """A rise that is not the task's."""

    name = "apparent_gain"
    label = "gain of form, not of the task"
    shown_by = "each reward function by itself"
    is_measured = True

    def measured(self, trends: RunTrends) -> np.ndarray | None:
        """Whether the reward has risen, mostly by form: by rollouts, as often as they are sure, else by the log."""
        gain = trends.gain
        if gain is None or np.isnan(gain.p_form):
            parts = _parts(trends)
            return None if parts is None else _mostly_form(trends, *parts)
        path = trends.reward.draws
        rose = path - path[:, :1] > max(trends.reward.noise_sd, THRESHOLDS.going * trends.span)
        form = gain.form_share_at(trends.reward.step) > THRESHOLDS.half
        sure = np.arange(len(path)) < round(gain.p_form * len(path))
        return rose & form[None, :] & sure[:, None]

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """What form and the task gained up to its end."""
        if trends.gain is not None and trends.gain.shares and trends.gain.has_gain:
            return _told(trends.gain)
        parts = _parts(trends)
        if parts is None:
            return ""
        at = int(np.searchsorted(trends.reward.step, last, "right")) - 1
        form, task = (span_text(interval(part[:, at]), ".2g") for part in parts)
        return f"format, length and finishing gained {form}, the task {task}"

    def evidence(self, trends: RunTrends) -> ModeEvidence | None:
        """Rise of form and of the task; None where neither log nor rollouts have both."""
        if trends.gain is not None and not np.isnan(trends.gain.p_form):
            return _by_rollouts(trends.gain)
        parts = _parts(trends)
        if parts is None:
            return None
        form, task = (part[:, -1] for part in parts)
        found = (
            quantity("form_gain", form, "reward", "change of the reward functions of form"),
            quantity("task_gain", task, "reward", "change of the reward functions of the task"),
        )
        f, t = (q.posterior for q in found)
        said = (
            f"form (format, length, finishing) changed by {f.median:.3g} [{f.low:.3g}, {f.high:.3g}] ({f.level:.0%}), "
            f"the task by {t.median:.3g} [{t.low:.3g}, {t.high:.3g}]"
        )
        return ModeEvidence(self.name, float(_mostly_form(trends, form, task).mean()), found, ("components",), (), said)


def _mostly_form(trends: RunTrends, form: np.ndarray, task: np.ndarray) -> np.ndarray:
    """Whether form and task together have risen, and most of it is form, of the shape of both."""
    up = np.maximum(form, 0.0)
    rise = up + np.maximum(task, 0.0)
    rose = rise > np.maximum(trends.reward.noise_sd, THRESHOLDS.going * trends.span)
    return rose & (up > THRESHOLDS.half * rise)


def _by_rollouts(gain: Decomposition) -> ModeEvidence:
    found = tuple(
        EvidenceQuantity(f"gain of {s.name}", "reward", f"what {s.words} changed of the reward", s.change)
        for s in gain.shares
    )
    return ModeEvidence("apparent_gain", gain.p_form, found, ("rollouts",), (), gain.sentence)


def _told(gain: Decomposition) -> str:
    best = max(gain.shares, key=lambda s: s.share.median)
    return f"{span_text(best.share, '.0%')} of the gain is {best.words}"


def _parts(trends: RunTrends) -> tuple[np.ndarray, np.ndarray] | None:
    """Draws of the change so far of form and of task, shape (draws, n) each; None where the log has not both."""
    names = list(trends.components)
    form = [name for name in names if is_form(name)]
    task = [name for name in names if is_task(name)]
    if not form or not task:
        return None
    weights = weights_of(trends, names)
    weight = dict(zip(names, np.ones(len(names)) if weights is None else weights, strict=True))

    def change(chosen: list[str]) -> np.ndarray:
        found = 0.0
        for name in chosen:
            path = trends.components[name].at(trends.reward.step)
            found = found + weight[name] * (path - path[:, :1])
        return np.asarray(found)

    return change(form), change(task)


MODE = ApparentGain()
