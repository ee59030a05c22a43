"""Advantage degeneracy: groups whose rewards are all the same have no advantage, and so no gradient.

Where the share of such groups is not logged, rows without any spread, or with a loss of exactly 0 among others, bound
it from below.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import span_text
from bayes_grpo.diagnosis.trends import RunTrends


class AdvantageDegeneracy(Mode):
    """Advantage degeneracy."""

    name = "advantage_degeneracy"
    label = "advantage degeneracy"
    shown_by = "the share of groups without spread"
    wants = ("frac_reward_zero_std",)
    chances = Calibration(0.02, 0.03, 0.85)
    remedies = ("longer limit", "verifier", "easier prompts", "larger groups", "mixed prompts", "harder prompts")

    def strength(self, rows: RunSoFar) -> float:
        """No signal and no progress: groups without spread, a reward that has not risen and does not stand high."""
        if rows.constant:
            spread = rows.signals.get("reward_std")
            unrewarded = float(rows.reward.value[0]) <= max(rows.low, 0.0) if rows.has_range else True
            if unrewarded and (spread is None or not np.any(spread.value > 0.0)):
                return np.inf
        waste = rows.waste
        if np.isnan(waste):
            return np.nan
        # Where no group tells how to gain what is left, a high reward is no excuse.
        left = rows.level < THRESHOLDS.solved and waste >= THRESHOLDS.dead_groups
        if rows.reward.rows < THRESHOLDS.waste_rows or (rows.near_top and not left) or rows.rise > 1.0:
            return 0.0
        return waste / THRESHOLDS.waste

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float) -> str:
        """How many groups, or rows, have no spread, what that leaves of a step, and whether prompts are to blame."""
        trend, parts = trends.signals.get("frac_reward_zero_std"), []
        inside = np.zeros(0, bool) if trend is None else (trend.step >= first) & (trend.step <= last)
        if trend is not None and inside.any():
            share = interval(np.clip(trend.draws[:, inside].mean(axis=1), 0.0, 1.0))
            parts.append(
                f"{span_text(share, '.0%')} of the groups have no spread, and a step does the work of "
                f"{1.0 - share.median:.0%} of its batch"
            )
            hard = rows.level < THRESHOLDS.hard
            if share.median > THRESHOLDS.share_named and (hard or rows.level > THRESHOLDS.easy):
                parts.append(f"at a reward of {rows.level:.2f} most of them are too {'hard' if hard else 'easy'}")
        elif rows.idle is not None:
            dead = rows.idle.until(last).late(2)
            parts.append(f"{int(dead.sum())} of the last {len(dead)} rows show no spread at all")
        return "; ".join(parts)


MODE = AdvantageDegeneracy()
