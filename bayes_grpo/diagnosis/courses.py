"""What all modes look at: the courses of a run's rewards and signals, each with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.diagnosis.trend import Trend, trend
from bayes_grpo.logs.run import SIGNALS, Run
from bayes_grpo.rows.reward_range import both_ends

if TYPE_CHECKING:
    from bayes_grpo.diagnosis.damping import Damping

LOGARITHMIC = {"entropy": 1e-4, "grad_norm": 1e-6, "completion_length": 1.0, "engine_mismatch": 1e-8}
"""Signals whose course is fitted in logarithms, and the smallest value that counts."""
LIVE = ("grad_norm",)
"""Signals whose rows of 0 are left out: where no group has spread there is no gradient to measure."""
FITTED = ("reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "completion_length")
"""Signals whose course is fitted whatever the modes; their place is part of the seed of their draws."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Courses:
    """The courses of a run's signals.

    Attributes:
        run: The run.
        progress: Train reward, or held-out reward where no train reward is logged.
        held_out: Gold or held-out reward beside a train reward, or None.
        held_out_name: "gold_reward", "eval_reward" or "".
        signals: Canonical name → course; of the logarithm for those in `LOGARITHMIC`.
        low: Lowest reward if known, else NaN.
        high: Highest reward if known, else NaN; known together with ``low`` or not at all.
        assumed_range: What was guessed of low and high, a sentence; "" where both were stated or are unknown.
        damping: Damping of the course of progress; None where it has no spread or was not asked for.
        components: Reward function → course of its mean, where the trainer logs them one by one.
    """

    run: Run
    progress: Trend
    held_out: Trend | None
    held_out_name: str
    signals: Mapping[str, Trend]
    low: float
    high: float
    assumed_range: str
    damping: Damping | None = None
    components: Mapping[str, Trend] = field(default_factory=dict)

    @property
    def uses_eval(self) -> bool:
        """Whether progress is that of the held-out reward."""
        return not self.run.has_reward

    @property
    def has_range(self) -> bool:
        """Whether lowest and highest reward are known."""
        return bool(np.isfinite(self.low))

    def share(self, reward: np.ndarray | float) -> np.ndarray:
        """Rewards as shares of the way from the lowest to the highest; NaN where these are not known."""
        return (np.asarray(reward) - self.low) / (self.high - self.low)


def courses_of(run: Run, signals: Iterable[str] = ()) -> Courses | None:
    """Fits the course of every signal; None where neither reward has three values.

    Args:
        run: The run.
        signals: Canonical names of signals beside `FITTED` that a mode looks at.
    """
    step = run.step
    train = trend(step, run.reward, seed=1)
    held = trend(run.eval_step, run.eval_reward, seed=2)
    name = "eval_reward" if held is not None else ""
    gold = run.signals.get("gold_reward")
    if gold is not None and train is not None:
        course = trend(step, gold, seed=3)
        if course is not None and (held is None or course.rows > held.rows):
            held, name = course, "gold_reward"
    progress = train or held
    if progress is None:
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
        course = trend(step, values, seed=seed)
        if course is not None:
            fitted[key] = course
    parts = [(name, trend(step, run.components[name], seed=100 + i)) for i, name in enumerate(run.components)]
    reward = both_ends(progress.raw, dict(run.settings.items()))
    return Courses(
        run=run,
        progress=progress,
        held_out=held,
        held_out_name=name,
        signals=fitted,
        low=reward.low if reward.known else np.nan,
        high=reward.high if reward.known else np.nan,
        assumed_range=reward.assumed,
        components={name: course for name, course in parts if course is not None},
    )
