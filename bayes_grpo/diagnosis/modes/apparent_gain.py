"""Apparent gain: most of the rise of the reward comes from format, length or finishing, not from correctness.

    share of the rise that is not the task = Σ over such functions of w_i Δr_i  /  Δ total

The names of the reward functions decide which kind each one is. With rollouts, the share is that of finishing and
format in their decomposition (`bayes_grpo.rollouts.decompose`).
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends
from bayes_grpo.logs.reward_key import is_form, is_task


class ApparentGain(Mode):
    """A rise from formatting, length or finishing."""

    name = "apparent_gain"
    required_signal = "each reward function separately"
    remedies = ("judge by task", "read completions")

    def strength(self, rows: RunSoFar) -> float:
        """Whether the reward has risen, mostly by form: by rollouts, else by the log."""
        y = rows.reward
        if y.rows < THRESHOLDS.least_rows:
            return np.nan
        least = max(y.noise, THRESHOLDS.going * rows.span)
        gain = rows.gain
        if gain is not None and not np.isnan(gain.p_form):
            share = float(gain.form_share_at(y.step[-1:])[0]) if gain.p_form > THRESHOLDS.half else 0.0
            return max(min((y.now - y.start) / least, share / THRESHOLDS.half), 0.0)
        parts = _gains(rows)
        if parts is None:
            return np.nan
        form, task = (max(x, 0.0) for x in parts)
        return min((form + task) / least, form / max(THRESHOLDS.half * (form + task), 1e-12))

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Changes of form and task rewards up to a step."""
        gain = rows.gain
        if gain is not None and gain.shares and gain.has_gain:
            best = max(gain.shares, key=lambda s: s.share.median)
            return f"{span_text(best.share, '.0%', level=level)} of the gain is {best.words}"
        parts = _gains(rows.until(last))
        if parts is None:
            return ""
        return f"format, length and finishing changed by {parts[0]:.2g}, the task reward by {parts[1]:.2g}"


def _gains(rows: RunSoFar) -> tuple[float, float] | None:
    """Change so far of form and of the task; None where the log has not both."""
    found = []
    for is_kind in (is_form, is_task):
        kind = [x for name, x in rows.parts.items() if is_kind(name) and x.rows >= THRESHOLDS.least_rows]
        if not kind:
            return None
        found.append(sum(x.now - x.start for x in kind))
    return found[0], found[1]


MODE = ApparentGain()
