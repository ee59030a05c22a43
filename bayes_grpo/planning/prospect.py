"""What settings lead to within a budget: how probably they fail, the reward where they hold, the reward counted in all.

All candidates are judged at the same draws, so that a gain is a difference and not two intervals side by side. They
share a draw's margin to failure, and each draw's luck is the same for all: where a rate fails, a higher one does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayes_grpo.common.seeds import seed_of
from bayes_grpo.planning.difficulty import Difficulty
from bayes_grpo.planning.lessons import Lessons
from bayes_grpo.planning.outlook import Base, LearnedExponents, Outcome, outcome, saturated
from bayes_grpo.planning.tried import TriedSettings
from bayes_grpo.risk.change import change
from bayes_grpo.risk.failing import Failing, p_fails
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.table import RowTable


@dataclass(frozen=True, eq=False)
class Prospect:
    """Inputs for scoring a candidate.

    Attributes:
        base: The present run.
        exponents: Exponents of the settings.
        table: Rows of the present run.
        reward: Range of the reward.
        most: Highest expected reward; the highest row of the run where the range has no known end. A regime's plateau
            can lie anywhere above the rows, and no row shows that the task allows it.
        difficulty: Success rates over prompts; None where unknown.
        run_effect: Difference between two runs of equal settings, log-odds, shape (draws,).
        present: Present settings that a plan may move.
        known: All settings of the present run that P(fails) uses, by the names of `Change`.
        failed: Whether the present run failed.
        rate: Its learning rate on the scale that runs share; None without one.
        tried: Outcomes of reference runs at their settings.
        budget: Largest cost of the next run, in steps of the present one.
        lessons: Priors pooled over public runs.
        seed: Seed.
    """

    base: Base
    exponents: Mapping[str, LearnedExponents]
    table: RowTable
    reward: RewardRange
    most: float
    difficulty: Difficulty | None
    run_effect: np.ndarray
    present: Mapping[str, float]
    known: Mapping[str, float]
    failed: bool
    rate: float | None
    tried: TriedSettings
    budget: float
    lessons: Lessons
    seed: int

    @cached_property
    def mean_rate(self) -> float:
        """Mean of the learning rate over its highest, by which the schedule slows the run."""
        weight = np.diff(self.table.step, prepend=self.table.start)
        return float(np.average(self.table.rate, weights=weight))

    def step_cost(self, settings: Mapping[str, float]) -> float:
        """Cost of an optimizer step, in steps of the present run: it follows the completions."""
        moved = (settings[n] / self.present[n] for n in ("group_size", "prompts_per_step") if n in settings)
        return math.prod(moved, start=1.0)

    @cached_property
    def _failing(self) -> dict[Any, Failing]:
        return {}

    def failing(self, settings: Mapping[str, float]) -> Failing:
        """How probably settings fail."""
        moved = change(self.known, settings)
        if moved not in self._failing:
            self._failing[moved] = p_fails(
                moved,
                rate=self.rate,
                worked=self.tried.worked,
                fell=self.tried.fell,
                failed=self.failed,
                known=self.lessons.failures,
            )
        return self._failing[moved]

    @cached_property
    def _luck(self) -> tuple[np.ndarray, np.ndarray]:
        """Uniform numbers, (draws,), that decide, and which posterior draw and margin a draw has, (draws, 2)."""
        rng, size = np.random.default_rng(seed_of(self.seed, "risk")), len(self.base)
        return rng.permutation((np.arange(size) + 0.5) / size), rng.random((size, 2))

    def _picked(self, values: np.ndarray) -> np.ndarray:
        place = (self._luck[1] * np.array(values.shape)).astype(int)
        return values[place[:, 0], place[:, 1]]

    def fails(self, settings: Mapping[str, float]) -> np.ndarray:
        """Which draws fail, shape (draws,)."""
        return self._luck[0] < self._picked(self.failing(settings).draws)

    def outcome(self, settings: Mapping[str, float]) -> Outcome:
        """What settings lead to where they hold."""
        ratio = {name: math.log(value / self.present[name]) for name, value in settings.items()}
        size, failing, nearing = settings.get("group_size"), self.failing(settings), None
        if any(ratio.values()) and failing.room is not None and failing.before is not None:
            nearing = self.lessons.nearing.shift(self._picked(failing.before), self._picked(failing.room))
        return outcome(
            self.base,
            self.exponents,
            ratio,
            self.reward,
            self.difficulty,
            None if size is None else (round(self.present["group_size"]), round(size)),
            unit=self.table.scale,
            length=self.mean_rate * self.table.length,
            nearing=nearing,
        )

    def ends(self, found: Outcome, fails: np.ndarray | bool, steps: np.ndarray | float) -> np.ndarray:
        """Reward at the end of runs, shape (draws,) or (draws, lengths): a run that fails ends where it began."""
        begin = found.at(0.0)
        whole = found.at(self.mean_rate * steps)
        return np.minimum(np.where(fails, begin.reshape(-1, *[1] * (whole.ndim - 1)), whole), self.most)

    def end(self, settings: Mapping[str, float]) -> np.ndarray:
        """Reward at the end of the budget, mean over seeds, runs that fail counted in, shape (draws,)."""
        return self.ends(self.outcome(settings), self.fails(settings), self.budget / self.step_cost(settings))

    def one_run(self, found: Outcome, mean: np.ndarray) -> np.ndarray:
        """Reward of one run whose mean over seeds is given, shape (draws,)."""
        own = self.base.seed + found.fluctuation * self.base.swing
        one = saturated(mean, self.run_effect, self.reward, self.table.scale) + own
        return np.clip(one, self.reward.low, self.reward.high)
