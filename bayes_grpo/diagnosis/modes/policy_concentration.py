"""Policy concentration: the entropy is spent before the reward is earned.

What counts is the entropy's decline relative to its start and to the reward gained, never its value: a solved task ends
with little entropy. The entropy law R = b - a e^H (Cui et al. 2025, https://arxiv.org/abs/2505.22617) says what reward
is left at zero entropy: its headroom is b - a - R.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.entropy import factor
from bayes_grpo.diagnosis.evidence import ModeEvidence, left_text, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends


class PolicyConcentration(Mode):
    """Policy concentration."""

    name = "policy_concentration"
    label = "policy concentration"
    signals = ("entropy",)
    shown_by = "the entropy"
    is_defined = True

    def evidence(self, trends: RunTrends) -> ModeEvidence:
        """Entropy left, entropy spent for the reward gained, headroom."""
        entropy = trends.signals.get("entropy")
        if entropy is None:
            return ModeEvidence(
                self.name, np.nan, (), (), ("entropy",), "no entropy in the log, so concentration cannot be "
                "seen",
            )  # fmt: skip
        ratio = factor(entropy)
        quantities = [quantity("entropy_ratio", ratio, "", "entropy at the end over that at the start")]
        r = quantities[0].posterior
        parts = [left_text("entropy", r)]
        reward = trends.reward
        left = _headroom(trends)
        if left is not None:
            quantities.append(quantity("entropy_headroom", left, "reward", "b - a - R of the entropy law"))
            h = quantities[-1].posterior
            parts.append(f"the entropy law leaves {h.median:.3g} [{h.low:.3g}, {h.high:.3g}] of reward to gain")
        if trends.has_range:
            short = 1.0 - trends.share(reward.draws[:, -1])
            quantities.append(quantity("reward_short", short, "", "share of the reward's range not reached"))
        used = ("entropy", "eval_reward" if trends.uses_eval else "reward")
        return ModeEvidence(self.name, np.nan, tuple(quantities), used, (), "; ".join(parts))

    def strength(self, rows: RunSoFar) -> float:
        """Little entropy is left, and the reward neither stands high nor has risen to the middle of its range."""
        entropy = rows.signals.get("entropy")
        if entropy is None or entropy.rows < THRESHOLDS.least_rows:
            return np.nan
        earned = rows.near_top or (rows.rise > 1.0 and not rows.level <= THRESHOLDS.short)
        if entropy.rows < THRESHOLDS.trend_rows or entropy.start <= 0.0 or earned:
            return 0.0
        return THRESHOLDS.entropy_gone * entropy.start / max(entropy.now, 1e-9)

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """What is left of the entropy."""
        entropy = trends.signals.get("entropy")
        if entropy is None:
            return ""
        left = interval(np.exp((entropy.at(np.array([last])) - entropy.draws[:, :1])[:, 0]))
        return left_text("entropy", left)


def _headroom(trends: RunTrends) -> np.ndarray | None:
    """Draws of b - a - R: each draw of both trends is regressed on the entropy law; None without a slope."""
    reward, entropy = trends.reward, trends.signals["entropy"]
    steps = np.linspace(max(reward.step[0], entropy.step[0]), min(reward.step[-1], entropy.step[-1]), 30)
    # Its trend is that of the logarithm.
    entropies = np.exp(np.clip(entropy.at(steps), -THRESHOLDS.most_e_folds, THRESHOLDS.most_log_entropy))
    x, y = np.exp(entropies), reward.at(steps)
    x0, y0 = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    size = (x0**2).sum(axis=1)
    if np.median(size) <= 1e-12:
        return None
    slope = (x0 * y0).sum(axis=1) / np.maximum(size, 1e-12)
    # At zero entropy e^H is 1.
    return y.mean(axis=1) + slope * (1.0 - x.mean(axis=1)) - y[:, -1]


MODE = PolicyConcentration()
