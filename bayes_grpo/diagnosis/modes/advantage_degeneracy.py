"""Advantage degeneracy: groups whose rewards are all the same have no advantage, and so no gradient.

The share of such groups is compared with what the reward's level and the group size imply when the prompts' success
rates follow a Beta law: E[p^G + (1 - p)^G]. Where the share is not logged, rows without any signal (no spread, a loss
of exactly 0 among others, or a mean reward at the end of its range) bound it from below.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.groups import group_size_of, implied_share
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.diagnosis.waste import dead_share


class AdvantageDegeneracy(Mode):
    """Advantage degeneracy."""

    name = "advantage_degeneracy"
    label = "advantage degeneracy"
    signals = ("frac_reward_zero_std", "reward_std")
    shown_by = "the share of groups without spread"
    is_defined = True

    def evidence(self, trends: RunTrends) -> ModeEvidence:
        """Share of zero-spread groups, its excess, and rows without any signal."""
        share = excess = None
        quantities, used, missing, parts = [], [], [], []
        level = trends.share(_late(trends.reward))
        known_level = trends.has_range and not trends.uses_eval
        trend = trends.signals.get("frac_reward_zero_std")
        if trend is not None:
            share = np.clip(_late(trend), 0.0, 1.0)
            used.append("frac_reward_zero_std")
            quantities.append(
                quantity("zero_share", share, "", "share of groups without spread, second half of the log")
            )
            prompts = trends.run.settings.prompts_per_step.value
            if prompts:
                quantities.append(
                    quantity("usable_groups", (1.0 - share) * float(prompts), "1/step", "groups with spread")
                )
            if known_level:
                size = group_size_of(trends.run.settings.group_size)
                implied = implied_share(np.clip(level, THRESHOLDS.least_rate, 1.0 - THRESHOLDS.least_rate), size)
                excess = share - implied
                quantities.append(quantity("zero_excess", excess, "", "share minus what reward and group size imply"))
            s = quantities[0].posterior
            parts.append(f"{s.median:.0%} [{s.low:.0%}, {s.high:.0%}] ({s.level:.0%}) of the groups have no spread")
        else:
            missing.append("frac_reward_zero_std")
        dead = dead_rows(trends)
        if dead is not None:
            draws, meaning = dead_share(dead), "share of rows without any spread, second half of the log"
            quantities.append(quantity("dead_rows", draws, "", meaning))
            parts.append(f"{int(dead.sum())} of the last {len(dead)} rows show no spread at all")
            used += [name for name in ("reward_std", "loss") if name in trends.run.signals]
        if known_level and trend is not None and quantities[0].posterior.median > THRESHOLDS.share_said:
            middle = float(np.median(level))
            if middle < THRESHOLDS.hard or middle > THRESHOLDS.easy:
                parts.append(
                    f"at a reward of {middle:.2f} most of them are too {'hard' if middle < THRESHOLDS.hard else 'easy'}"
                )
        sentence = "; ".join(parts) or "no signal tells how many groups have no spread"
        return ModeEvidence(self.name, np.nan, tuple(quantities), tuple(used), tuple(missing), sentence)

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
        left = (
            rows.level < THRESHOLDS.solved and waste >= THRESHOLDS.dead_groups
        )  # no group tells how to gain what is left
        if rows.reward.rows < THRESHOLDS.waste_rows or (rows.near_top and not left) or rows.rise > 1.0:
            return 0.0
        return waste / THRESHOLDS.waste

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How many groups, or rows, have no spread, and what that leaves of a step."""
        trend = trends.signals.get("frac_reward_zero_std")
        if trend is not None:
            inside = (trend.step >= first) & (trend.step <= last)
            if inside.any():
                share = interval(np.clip(trend.draws[:, inside].mean(axis=1), 0.0, 1.0))
                return (
                    f"{share.median:.0%} [{share.low:.0%}, {share.high:.0%}] of the groups have no spread, and a step "
                    f"does the work of {1.0 - share.median:.0%} of its batch"
                )
        dead = dead_rows(trends, all_rows=True)
        if dead is None:
            return ""
        steps = trends.reward.raw_step[-len(dead) :]
        inside = dead[(steps >= first) & (steps <= last)]
        return f"{int(inside.sum())} of {len(inside)} rows show no spread at all" if len(inside) else ""


def dead_rows(trends: RunTrends, all_rows: bool = False) -> np.ndarray | None:
    """Which logged rows of the second half show no spread at all, or None where no signal tells.

    Args:
        trends: Trends of the run.
        all_rows: The whole log instead of its second half.
    """
    run = trends.run
    if not run.has_reward:
        return None
    kept = np.isfinite(run.reward)
    told, dead = np.zeros(len(kept), bool), np.zeros(len(kept), bool)
    share, spread, loss = (run.signals.get(k) for k in ("frac_reward_zero_std", "reward_std", "loss"))
    if share is not None:
        told |= np.isfinite(share)
        dead |= np.nan_to_num(share) >= THRESHOLDS.dead_groups
    if spread is not None:
        told |= np.isfinite(spread)
        dead |= np.isfinite(spread) & (
            spread <= THRESHOLDS.dead_spread * max(float(np.nanmax(np.abs(run.reward))), 1e-9)
        )
    if loss is not None and _zeros_tell(loss):
        alone = np.isfinite(loss) if spread is None else np.isfinite(loss) & ~np.isfinite(spread)
        told |= alone
        dead |= alone & (loss == 0.0)
    if trends.has_range:
        told |= kept
        dead |= (run.reward == trends.low) | (run.reward == trends.high)
    chosen = np.flatnonzero(kept & told)
    if not len(chosen):
        return None
    return dead[chosen if all_rows else chosen[len(chosen) // 2 :]]


def _late(trend: Trend) -> np.ndarray:
    """Draws of the mean over the second half."""
    draws = trend.draws
    return draws[:, draws.shape[1] // 2 :].mean(axis=1)


def _zeros_tell(loss: np.ndarray) -> bool:
    """Whether a loss of 0 means that there was no advantage.

    Where every rollout is used once and nothing penalises, the loss is 0 but for rounding in every row: a 0 tells
    only among losses that are far larger than the last digit that is written.
    """
    size = np.abs(loss[np.isfinite(loss) & (loss != 0.0)])
    return len(size) > 0 and bool(
        np.median(size) > max(THRESHOLDS.loss_least, THRESHOLDS.loss_digits * _last_digit(size))
    )


def _last_digit(values: np.ndarray) -> float:
    """Power of ten that all values are multiples of; 0 where they are not rounded."""
    for digits in range(10):
        scaled = values * 10.0**digits
        if np.all(np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(scaled, 1.0)):
            return 10.0**-digits
    return 0.0


MODE = AdvantageDegeneracy()
