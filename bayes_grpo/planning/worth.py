"""What settings are worth: the reward within a budget, whether they are stable, when they reach a goal.

All candidates are judged at the same draws, so that a gain is a difference and not two intervals side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.planning.difficulty import Difficulty
from bayes_grpo.planning.outlook import Base, Learned, Outcome, outcome
from bayes_grpo.planning.result import CurvatureSource
from bayes_grpo.planning.stability import stability
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.table import RowTable

LENGTHS = np.linspace(0.025, 1.0, 40)
"""Lengths of a run, over the budget, among which the most valuable one is looked for."""
FARTHEST = 20.0
"""Lengths of the present run within which a reward that is asked for is looked for."""


class Worth(NamedTuple):
    """What a candidate is worth.

    Attributes:
        steps: Length of the run.
        reward: Expected reward at its end, shape (draws,).
        worth: Reward, or value less cost, shape (draws,).
    """

    steps: float
    reward: np.ndarray
    worth: np.ndarray


@dataclass(frozen=True, eq=False)
class Prospect:
    """All that a candidate is judged by.

    Attributes:
        base: The present run.
        exponents: Exponents of the settings.
        table: Rows of the present run.
        reward: Where the reward can lie.
        difficulty: Success rates over prompts; None where they are not known.
        present: Present settings.
        unit_cost: Cost of a step of the present run.
        budget: Largest cost of the next run.
        value: Value of a unit of reward; None without.
        target: Reward that is asked for; None without.
        probability: Probability with which it shall be reached.
    """

    base: Base
    exponents: Mapping[str, Learned]
    table: RowTable
    reward: RewardRange
    difficulty: Difficulty | None
    present: Mapping[str, float]
    unit_cost: float
    budget: float
    value: float | None
    target: float | None
    probability: float

    @property
    def source(self) -> CurvatureSource:
        """Where the curvature comes from."""
        return "low_lag_run" if self.table.optimizer.refresh <= 1 else "same_run"

    @property
    def mean_rate(self) -> float:
        """Mean of the learning rate over its highest, by which the schedule slows the run."""
        weight = np.diff(self.table.step, prepend=self.table.start)
        return float(np.average(self.table.rate, weights=weight))

    def outcome(self, settings: Mapping[str, float]) -> Outcome:
        """What settings lead to."""
        ratio = {name: math.log(value / self.present[name]) for name, value in settings.items()}
        size = settings.get("group_size")
        sizes = None if size is None else (round(self.present["group_size"]), round(size))
        return outcome(self.base, self.exponents, ratio, self.reward, self.difficulty, sizes)

    def step_cost(self, settings: Mapping[str, float]) -> float:
        """Cost of an optimizer step: it follows the completions."""
        ratio = [settings[n] / self.present[n] for n in ("group_size", "prompts_per_step") if n in settings]
        return self.unit_cost * math.prod(ratio)

    def stable(self, settings: Mapping[str, float], rate: np.ndarray) -> tuple[np.ndarray, float]:
        """Which draws are stable with a policy held between refreshes, and the share that is so by the rule."""
        moving = rate > 0
        if not moving.any():
            return np.ones(len(rate), bool), 1.0
        optimizer = self.table.optimizer
        convention: Any = optimizer.convention
        report = stability(
            settings.get("learning_rate", 1.0),
            optimizer.momentum,
            convention,
            settings.get("refresh_interval", optimizer.refresh),
            learning_time=1.0 / rate[moving],
            source=self.source,
        )
        gain = (1.0 - optimizer.momentum) * rate
        return gain < report.hold.threshold, 1.0 - float(np.mean(moving)) * (1.0 - report.rule.probability_stable)

    def worth(self, settings: Mapping[str, float], found: Outcome, stable: np.ndarray) -> Worth:
        """What settings are worth at the most valuable length within the budget."""
        cost = self.step_cost(settings)
        steps = self.budget / cost * (LENGTHS if self.value is not None else LENGTHS[-1:])
        # An unstable run is taken to end where it began.
        reward = np.where(stable[:, None], found.at(self.mean_rate * steps), found.start[:, None])
        worth = reward if self.value is None else self.value * reward - cost * steps
        best = int(np.argmax(worth.mean(axis=0)))
        return Worth(float(steps[best]), reward[:, best], worth[:, best])

    def one_run(self, found: Outcome, mean: np.ndarray) -> np.ndarray:
        """Reward of one run whose mean over seeds is given, shape of the mean."""
        apart = self.base.seed + found.fluctuation * self.base.swing
        return np.clip(mean + (apart[:, None] if mean.ndim > 1 else apart), self.reward.low, self.reward.high)

    def reached(self, found: Outcome, stable: np.ndarray) -> float | None:
        """Steps after which one run has the reward that is asked for with the probability asked for."""
        if self.target is None:
            return None
        steps = np.geomspace(1.0, FARTHEST * self.table.length, 200)
        there = (self.one_run(found, found.at(self.mean_rate * steps)) >= self.target) & stable[:, None]
        enough = np.flatnonzero(there.mean(axis=0) >= self.probability)
        return float(steps[enough[0]]) if enough.size else None
