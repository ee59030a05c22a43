"""Reward hacking: the train reward rises and the true objective does not.

The evaluation reward stays near 0, or turns over while the train reward goes on rising (over-optimization, Gao et al.
2022, https://arxiv.org/abs/2210.10760). Without an evaluation signal a hacked rise looks like a real one.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import span_text
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.mode import HELD_OUT, Calibration, Mode
from bayes_grpo.diagnosis.parts import functions_text, parts_of, rise_and_fall
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends
from bayes_grpo.rows.series import is_share


class RewardHacking(Mode):
    """Reward hacking."""

    name = "reward_hacking"
    required_signal = "an evaluation or gold reward"
    wants = (HELD_OUT, "kl")
    chances = Calibration(0.01, 0.03, 0.85)
    remedies = ("go back", "start over", "read completions", "KL term", "log KL")

    def strength(self, rows: RunSoFar) -> float:
        """The train reward has risen; the evaluation reward stays near 0, or has lost its level."""
        train, held_out = rows.reward, rows.held_out
        if held_out.rows < THRESHOLDS.least_rows:
            return np.nan
        if train.rows < THRESHOLDS.trend_rows:
            return 0.0
        gain, share = train.now - train.start, is_share(held_out.value)
        rose = min(gain / (THRESHOLDS.fall_errors * train.error), gain / (THRESHOLDS.hack_rise * rows.span))
        hollow = 0.0
        if share and rows.ends.known and held_out.now - held_out.start < THRESHOLDS.hack_shared * gain:
            hollow = min(THRESHOLDS.hollow / max(held_out.now, 1e-6), rows.level / THRESHOLDS.stands)
        top = float(held_out.value.max())
        fall, level = top - held_out.now, top - (0.0 if share else float(held_out.value.min()))
        turned = 0.0
        if held_out.rows >= THRESHOLDS.held_out_rows - 1 and held_out.now <= held_out.start + held_out.error:
            turned = min(fall / (THRESHOLDS.fall_errors * held_out.error), fall / max(THRESHOLDS.turned * level, 1e-9))
        return min(rose, max(hollow, turned))

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Changes of both rewards up to a step, and the reward function that rose."""
        train, held_out = trends.reward, trends.held_out
        functions = parts_of(trends)
        rises, _ = rise_and_fall(functions)
        parts = [text] if (text := functions_text(functions, level)) else []
        if held_out is None:
            alone = "without a train reward, a fall can be hacking or instability"
            honest = "without an evaluation reward, a hacked rise looks like a real one"
            return "; ".join([alone if rows.uses_eval else honest, *parts])
        begin, end = max(train.step[0], held_out.step[0]), min(last, held_out.step[-1])
        if end <= begin:
            return "; ".join(parts)
        rise, carried = train.change_since(begin, end), held_out.change(begin, end)
        if rises is not None and np.median(carried) < THRESHOLDS.half * np.median(rise):
            parts.append(f"the {trends.held_out_name} reward does not share the rise of {plain(rises.name, 40)}")
        both = f"the train reward changed by {span_text(rise, level=level)}, the {trends.held_out_name} reward by "
        return "; ".join([f"since step {begin:g} {both}{span_text(carried, level=False)}", *parts])


MODE = RewardHacking()
