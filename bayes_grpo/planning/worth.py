"""What settings are worth: the reward within a budget, what is left where they fail, when they reach a goal.

All candidates are judged at the same draws, so that a gain is a difference and not two intervals side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.planning.difficulty import Difficulty
from bayes_grpo.planning.lessons import Nearing
from bayes_grpo.planning.outlook import Base, LearnedExponents, Outcome, outcome, saturated
from bayes_grpo.planning.question import Terms
from bayes_grpo.planning.risks import Risks
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.table import RowTable

LENGTHS = np.linspace(0.025, 1.0, 40)
"""Lengths of a run, over the budget, among which the most valuable one is looked for."""
REACHED = 0.9
"""Probability with which a reward that is asked for shall be reached, where nobody says."""
_FARTHEST = 20.0
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
        most: Highest reward that is expected: where no end of the range is known, the highest row of the run. A
            regime's plateau can lie anywhere above the rows, and no row has shown that the task gives as much.
        difficulty: Success rates over prompts; None where they are not known.
        apart: What sets one run apart from a sibling of equal settings, log-odds, shape (draws,).
        present: Present settings.
        unit_cost: Cost of a step of the present run.
        budget: Largest cost of the next run.
        terms: What it may cost and what is wanted of it.
        risks: How probably candidates fail.
        nearing: What the level of a run loses near the border at which it fails.
    """

    base: Base
    exponents: Mapping[str, LearnedExponents]
    table: RowTable
    reward: RewardRange
    most: float
    difficulty: Difficulty | None
    apart: np.ndarray
    present: Mapping[str, float]
    unit_cost: float
    budget: float
    terms: Terms
    risks: Risks
    nearing: Nearing

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
        return outcome(
            self.base,
            self.exponents,
            ratio,
            self.reward,
            self.difficulty,
            sizes,
            unit=self.table.scale,
            length=self.mean_rate * self.table.length,
            nearing=self._nearing(settings),
        )

    def _nearing(self, settings: Mapping[str, float]) -> np.ndarray | None:
        """What levels lose near the border; a family's exponents of the plateau hold it already."""
        moved = [name for name, value in settings.items() if value != self.present[name]]
        if not moved or any(self.exponents[name].family for name in moved):
            return None
        return self.risks.shift(self.risks.of(settings), self.nearing)

    def step_cost(self, settings: Mapping[str, float]) -> float:
        """Cost of an optimizer step: it follows the completions."""
        ratio = [settings[n] / self.present[n] for n in ("group_size", "prompts_per_step") if n in settings]
        return self.unit_cost * math.prod(ratio)

    def fails(self, settings: Mapping[str, float]) -> np.ndarray:
        """Which draws fail, shape (draws,)."""
        return self.risks.fails(self.risks.of(settings))

    def ends(self, found: Outcome, fails: np.ndarray, exposure: np.ndarray | float) -> np.ndarray:
        """Reward at the end of runs, shape (draws,) or (draws, lengths): a run that fails ends where it began."""
        whole, begin = found.at(exposure), found.at(0.0)
        ends = np.where(fails[:, None], begin[:, None], whole) if whole.ndim > 1 else np.where(fails, begin, whole)
        return np.minimum(ends, self.most)

    def worth(self, settings: Mapping[str, float], found: Outcome, fails: np.ndarray) -> Worth:
        """What settings are worth at the most valuable length within the budget."""
        cost, value = self.step_cost(settings), self.terms.value_per_reward
        steps = self.budget / cost * (LENGTHS if value is not None else LENGTHS[-1:])
        reward = self.ends(found, fails, self.mean_rate * steps)
        worth = reward if value is None else value * reward - cost * steps
        best = int(np.argmax(worth.mean(axis=0)))
        return Worth(float(steps[best]), reward[:, best], worth[:, best])

    def one_run(self, found: Outcome, mean: np.ndarray) -> np.ndarray:
        """Reward of one run whose mean over seeds is given, shape of the mean."""
        apart = self.base.seed + found.fluctuation * self.base.swing
        own, other = (x[:, None] if mean.ndim > 1 else x for x in (apart, self.apart))
        return np.clip(saturated(mean, other, self.reward, self.table.scale) + own, self.reward.low, self.reward.high)

    def reached(self, found: Outcome, fails: np.ndarray) -> float | None:
        """Steps after which one run has the reward that is asked for with the probability asked for."""
        target, probability = self.terms.reach, self.terms.probability
        if target is None:
            return None
        steps = np.geomspace(1.0, _FARTHEST * self.table.length, 200)
        there = (self.one_run(found, found.at(self.mean_rate * steps)) >= target) & ~fails[:, None]
        enough = np.flatnonzero(there.mean(axis=0) >= (REACHED if probability is None else probability))
        return float(steps[enough[0]]) if enough.size else None
