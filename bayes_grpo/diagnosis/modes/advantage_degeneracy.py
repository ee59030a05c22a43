"""Advantage degeneracy: groups with equal rewards (zero variance) have zero advantages, and so no gradient.

Where their share is not logged, rows with zero reward variance, or with a loss of exactly 0 among others, bound it
from below.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends


class AdvantageDegeneracy(Mode):
    """Advantage degeneracy."""

    name = "advantage_degeneracy"
    required_signal = "the share of zero-variance groups"
    wants = ("frac_reward_zero_std",)
    chances = Calibration(0.02, 0.03, 0.85)
    remedies = ("longer limit", "verifier", "easier prompts", "larger groups", "mixed prompts", "harder prompts")

    def strength(self, rows: RunSoFar) -> float:
        """No signal and no progress: zero-variance groups, and a reward that has not risen and is not high."""
        if rows.constant:
            unrewarded = float(rows.reward.value[0]) <= max(rows.ends.low, 0.0) if rows.ends.known else True
            if unrewarded and not np.any(rows.signal("reward_std").value > 0.0):
                return np.inf
        waste = rows.waste
        if np.isnan(waste):
            return np.nan
        # Where no group has a gradient toward the remaining gain, a high reward does not excuse it.
        left = rows.level < THRESHOLDS.solved and waste >= THRESHOLDS.dead_groups
        earned = rows.level > THRESHOLDS.near_top and not left
        if rows.reward.rows < THRESHOLDS.waste_rows or earned or rows.rise > 1.0:
            return 0.0
        return waste / THRESHOLDS.waste

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Share of zero-variance groups or rows, the effective batch, and whether the prompts are the cause."""
        draws = trends.share_without_spread(first, last)
        if draws is None:
            dead = rows.idle.until(last).late(2)
            return f"{int(dead.sum())} of the last {len(dead)} rows show zero reward variance" if len(dead) else ""
        share, hard = interval(np.clip(draws, 0.0, 1.0)), rows.level < THRESHOLDS.hard
        live = f"{1.0 - share.median:.0%} of each batch contributes a gradient"
        text = f"{span_text(share, '.0%', level=level)} of the groups have zero reward variance, so {live}"
        if share.median > THRESHOLDS.share_named and (hard or rows.level > THRESHOLDS.easy):
            text += f"; at a reward of {rows.level:.2f} most of their prompts are too {'hard' if hard else 'easy'}"
        return text


MODE = AdvantageDegeneracy()
