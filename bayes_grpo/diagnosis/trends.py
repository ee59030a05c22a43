"""The trends of a run's rewards and signals, each with its uncertainty: for pictures and numbers in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bayes_grpo.diagnosis.trend import Trend, fit_trend, reward_trend
from bayes_grpo.logs.run import SIGNALS, Run

LOGARITHMIC = {"entropy": 1e-4, "grad_norm": 1e-6, "completion_length": 1.0, "engine_mismatch": 1e-8}
"""Signals whose trend is fitted in logarithms, and the smallest value that counts."""
LIVE = ("grad_norm",)
"""Signals whose rows of 0 are left out: where no group has spread there is no gradient to measure."""
_FIRST = ("reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "completion_length")
FITTED = (*_FIRST, "completions_clipped_ratio", "engine_mismatch", "step_time")
"""Signals whose trend is fitted."""
_SEEDS = {key: seed for seed, key in reversed(list(enumerate((*_FIRST, *SIGNALS), 10)))}


@dataclass(frozen=True, eq=False, kw_only=True)
class RunTrends:
    """The trends of a run.

    Attributes:
        run: The run.
        reward: Train reward, or evaluation reward where no train reward is logged.
        held_out: Gold or evaluation reward of a run that logs a train reward too, or None.
        held_out_name: "gold" or "evaluation".
        signals: Canonical name → trend; of the logarithm of those in `LOGARITHMIC`.
        components: Reward function → trend of its mean, where the trainer logs them one by one.
        environments: Environment → trend of its mean.
    """

    run: Run
    reward: Trend
    held_out: Trend | None
    held_out_name: str
    signals: Mapping[str, Trend]
    components: Mapping[str, Trend]
    environments: Mapping[str, Trend] = field(default_factory=dict)

    @property
    def uses_eval(self) -> bool:
        """Whether the reward is the evaluation reward."""
        return not self.run.has_reward


def trends_of(run: Run) -> RunTrends | None:
    """Fits the trend of every signal; None where neither reward has three values."""
    step = run.step
    train, held_out = reward_trend(run, "reward"), reward_trend(run, "eval_reward")
    name, gold = "evaluation", run.signals.get("gold_reward")
    if gold is not None and train is not None:
        trend = fit_trend(step, gold, seed=3)
        if trend is not None and (held_out is None or trend.rows > held_out.rows):
            held_out, name = trend, "gold"
    reward = train or held_out
    if reward is None:
        return None
    fitted = {}
    for key in FITTED:
        values = run.signals.get(key)
        if values is None:
            continue
        if key in LIVE:
            values = np.where(values > 0.0, values, np.nan)
        if key in LOGARITHMIC:
            values = np.log(np.maximum(values, LOGARITHMIC[key]))
        fitted[key] = fit_trend(step, values, seed=_SEEDS[key])
    parts = {name: fit_trend(step, values, seed=100 + i) for i, (name, values) in enumerate(run.components.items())}
    places = {name: fit_trend(step, x, seed=200 + i) for i, (name, x) in enumerate(run.environments.items())}
    return RunTrends(
        run=run,
        reward=reward,
        held_out=None if train is None else held_out,
        held_out_name=name,
        signals={key: trend for key, trend in fitted.items() if trend is not None},
        components={key: trend for key, trend in parts.items() if trend is not None},
        environments={key: trend for key, trend in places.items() if trend is not None},
    )


def rise_chance(trends: RunTrends) -> float:
    """Probability that the reward rose by more than the noise of a row."""
    return float((trends.reward.change() > trends.reward.noise_sd).mean())
