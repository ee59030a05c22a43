"""Policy concentration: the entropy is spent before the reward is earned.

What counts is the entropy's decline relative to its start and to the reward gained, never its value: a solved task ends
with little entropy. The entropy law R = b - a e^H (Cui et al. 2025, https://arxiv.org/abs/2505.22617) says what reward
is left at zero entropy: its headroom is b - a - R.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.diagnosis.advice import fails_at, left_text, rate_times, span_text
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunRows
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.entropy import factor, spent


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
        early = spent(trends)
        used = ("entropy", "eval_reward" if trends.uses_eval else "reward")
        return ModeEvidence(self.name, float(np.mean(early)), tuple(quantities), used, (), "; ".join(parts))

    def strength(self, rows: RunRows) -> float:
        """Little entropy is left, and the reward neither stands high nor has risen to the middle of its range."""
        entropy = rows.signals.get("entropy")
        if entropy is None or entropy.rows < BORDERS.least_rows:
            return np.nan
        earned = rows.near_top or (rows.rise > 1.0 and not rows.level <= BORDERS.short)
        if entropy.rows < BORDERS.trend_rows or entropy.start <= 0.0 or earned:
            return 0.0
        return BORDERS.entropy_gone * entropy.start / max(entropy.now, 1e-9)

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """What is left of the entropy."""
        entropy = trends.signals.get("entropy")
        if entropy is None:
            return ""
        left = interval(np.exp((entropy.at(np.array([last])) - entropy.draws[:, :1])[:, 0]))
        return left_text("entropy", left)

    def remedies(self, trends: RunTrends, evidence: ModeEvidence, onset: Interval | None) -> tuple[str, ...]:
        """The checkpoint before, room for rare tokens, and what the entropy law still promises."""
        out = []
        entropy = trends.signals.get("entropy")
        if onset is not None and entropy is not None:
            left = np.flatnonzero(entropy.mean - entropy.mean[0] >= np.log(BORDERS.half_spent))
            out.append(f"go back to about step {entropy.step[left[-1]]:.0f}, where half of the entropy was left")
        if entropy is None:
            out.append("log the entropy; raise the upper clip range (0.2 to 0.28) or add an entropy bonus")
        else:
            start, end = (float(np.exp(entropy.mean[i])) for i in (0, -1))
            out.append(
                "raise the upper clip range (0.2 to 0.28), or add an entropy bonus that holds the entropy near half of "
                f"its start, {BORDERS.half_spent * start:.2g} in place of {end:.2g}"
            )
            decay = -entropy.change() / (entropy.step[-1] - entropy.step[0])
            if interval(decay).low > 0.0:
                steps = interval(np.log(2.0) / np.maximum(decay, 1e-12))
                out.append(
                    f"lower {rate_times(trends.run, BORDERS.slower)}: the entropy halves every "
                    f"{span_text(steps, '.3g')} steps, and at half the rate is expected to take twice as many "
                    f"({fails_at(trends.run, BORDERS.slower, True)})"
                )
        room = evidence.posterior("entropy_headroom")
        if room is not None:
            out.append(f"the entropy law leaves {room.median:.2g} of reward at zero entropy: more steps bring no more")
        return tuple(out)


def _headroom(trends: RunTrends) -> np.ndarray | None:
    """Draws of b - a - R: each draw of both trends is regressed on the entropy law; None without a slope."""
    reward, entropy = trends.reward, trends.signals["entropy"]
    steps = np.linspace(max(reward.step[0], entropy.step[0]), min(reward.step[-1], entropy.step[-1]), 30)
    # Its trend is that of the logarithm.
    entropies = np.exp(np.clip(entropy.at(steps), -BORDERS.most_e_folds, BORDERS.most_log_entropy))
    x, y = np.exp(entropies), reward.at(steps)
    x0, y0 = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    size = (x0**2).sum(axis=1)
    if np.median(size) <= 1e-12:
        return None
    slope = (x0 * y0).sum(axis=1) / np.maximum(size, 1e-12)
    # At zero entropy e^H is 1.
    return y.mean(axis=1) + slope * (1.0 - x.mean(axis=1)) - y[:, -1]


MODE = PolicyConcentration()
