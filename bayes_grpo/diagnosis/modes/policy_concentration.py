"""Policy concentration (entropy collapse): the entropy vanishes before the reward is earned.

What counts is the entropy's decline relative to its start and to the reward gained, never its value: a solved task ends
with little entropy (Cui et al. 2025, https://arxiv.org/abs/2505.22617).
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends


class PolicyConcentration(Mode):
    """Policy concentration."""

    name = "policy_concentration"
    required_signal = "the entropy"
    wants = ("entropy",)
    chances = Calibration(0.01, 0.02, 0.75)
    remedies = ("compare resume", "go back", "entropy term", "lower rate", "KL term", "compare checkpoints")

    def strength(self, rows: RunSoFar) -> float:
        """Low entropy, with a reward that neither is high nor has risen to the middle of its range."""
        entropy = rows.signal("entropy")
        if entropy.rows < THRESHOLDS.least_rows:
            return np.nan
        risen = rows.rise > 1.0 and not rows.level <= THRESHOLDS.short
        if entropy.rows < THRESHOLDS.trend_rows or entropy.start <= 0.0 or rows.level > THRESHOLDS.near_top or risen:
            return 0.0
        return THRESHOLDS.entropy_gone * entropy.start / max(entropy.now, 1e-9)

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Entropy as a share of its starting value, or a multiple where it has more than doubled."""
        entropy = trends.signals.get("entropy")
        if entropy is None:
            return ""
        left = interval(np.exp(entropy.change(last=last)))
        if left.high > THRESHOLDS.doubled:
            return f"the entropy is {span_text(left, '.3g', level=level)} times its starting value"
        return f"the entropy is {span_text(left, '.0%', level=level)} of its starting value"


MODE = PolicyConcentration()
