"""What all modes look at: the trends of a run's rewards and signals, each with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.diagnosis.smoothing import fit_trend, reward_trend
from bayes_grpo.diagnosis.trend import LatentSignals, Trend
from bayes_grpo.logs.run import SIGNALS, Run
from bayes_grpo.rows.reward_range import both_ends

if TYPE_CHECKING:
    from bayes_grpo.rollouts.decomposition import Decomposition

LOGARITHMIC = {"entropy": 1e-4, "grad_norm": 1e-6, "completion_length": 1.0, "engine_mismatch": 1e-8}
"""Signals whose trend is fitted in logarithms, and the smallest value that counts."""
LIVE = ("grad_norm",)
"""Signals whose rows of 0 are left out: where no group has spread there is no gradient to measure."""
FITTED = ("reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "completion_length")
"""Signals whose trend is fitted whatever the modes; their place is part of the seed of their draws."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunTrends(LatentSignals):
    """The trends of a run's signals, with what its log says of them.

    Attributes:
        run: The run.
        held_out_name: "gold_reward", "eval_reward" or "".
        assumed_range: What was guessed of low and high, a sentence; "" where both were stated or are unknown.
        components: Reward function → trend of its mean, where the trainer logs them one by one.
        gain: What its gain is made of by its rollouts; None where none were given.
    """

    run: Run
    held_out_name: str
    assumed_range: str
    components: Mapping[str, Trend] = field(default_factory=dict)
    gain: Decomposition | None = None

    @property
    def uses_eval(self) -> bool:
        """Whether the reward is the held-out one."""
        return not self.run.has_reward


def trends_of(run: Run, signals: Iterable[str] = ()) -> RunTrends | None:
    """Fits the trend of every signal; None where neither reward has three values.

    Args:
        run: The run.
        signals: Canonical names of signals beside `FITTED` that a mode looks at.
    """
    step = run.step
    train, held = reward_trend(run, "reward"), reward_trend(run, "eval_reward")
    name = "eval_reward" if held is not None else ""
    gold = run.signals.get("gold_reward")
    if gold is not None and train is not None:
        trend = fit_trend(step, gold, seed=3)
        if trend is not None and (held is None or trend.rows > held.rows):
            held, name = trend, "gold_reward"
    reward = train or held
    if reward is None:
        return None
    if train is None:
        held, name = None, ""
    fitted = {}
    asked = set(FITTED) | set(signals)
    for seed, key in enumerate((*FITTED, *SIGNALS), 10):
        if key not in asked or key in fitted or key not in run.signals:
            continue
        values = run.signals[key]
        if key in LIVE:
            values = np.where(values > 0.0, values, np.nan)
        if key in LOGARITHMIC:
            values = np.log(np.maximum(values, LOGARITHMIC[key]))
        trend = fit_trend(step, values, seed=seed)
        if trend is not None:
            fitted[key] = trend
    parts = [(name, fit_trend(step, run.components[name], seed=100 + i)) for i, name in enumerate(run.components)]
    ends = both_ends(reward.raw, dict(run.settings.items()))
    return RunTrends(
        run=run,
        reward=reward,
        held_out=held,
        held_out_name=name,
        signals=fitted,
        low=ends.low if ends.known else np.nan,
        high=ends.high if ends.known else np.nan,
        assumed_range=ends.assumed,
        components={name: trend for name, trend in parts if trend is not None},
    )
