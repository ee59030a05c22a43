"""Several runs at once and steps for some of them: which to go on with, and how far.

What a sweep is worth is the reward of its best checkpoint. Steps are given greedily, each time to the run and the stop
whose expected improvement of that best is largest for a step (the knowledge gradient; Frazier, Powell and Dayanik 2009,
https://doi.org/10.1287/ijoc.1080.0314). Halving (Li et al. 2020, https://arxiv.org/abs/1810.05934) ranks by the reward
now; a forecast counts with a run that stands low and rises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.results import Result
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.decision.budget import check_amount, courses_of

if TYPE_CHECKING:
    from bayes_grpo.forecasting.result import Forecast


@dataclass(frozen=True)
class Given(Result):
    """What one run gets.

    Attributes:
        name: The run.
        now: Its last logged step.
        until: Step to go on to; ``now`` where it is to stop.
        best: Probability that the best checkpoint of all is one of its own.
    """

    name: str
    now: float
    until: float
    best: float

    @property
    def steps(self) -> float:
        """Steps that it gets."""
        return self.until - self.now


@dataclass(frozen=True)
class Split(Result):
    """How steps are split over runs.

    Attributes:
        budget: Steps to give.
        spent: Steps given; fewer where no more is expected to pay.
        now: Expected reward of the best checkpoint of all if every run stops.
        then: The same after the steps.
        runs: What each gets, the most steps first.
    """

    budget: float
    spent: float
    now: float
    then: float
    runs: tuple[Given, ...]

    in_json = ("sentence", ...)

    @property
    def sentence(self) -> str:
        """The split in words."""
        going = [r for r in self.runs if r.steps > 0.0]
        if not going:
            return f"Stop all {len(self.runs)} runs: no step is expected to raise the best reward of {self.now:.3g}."
        told = ", ".join(
            f"{plain(r.name, 80)} to step {r.until:g} (best in the end with probability {probability_text(r.best)})"
            for r in going
        )
        rest = len(self.runs) - len(going)
        return (
            f"Go on with {told}{f'; stop the other {rest}' if rest else ''}: {self.spent:g} of {self.budget:g} steps, "
            f"expected best reward {self.then:.3g} after {self.now:.3g} now."
        )


def split_budget(forecasts: Mapping[str, Forecast], budget: float, seed: int = 0) -> Split:
    """Which of several runs deserve the steps that are left.

    Args:
        forecasts: Run → its forecast, all in the same unit of reward.
        budget: Optimizer steps to give to all of them together.
        seed: Seed by which draws of different runs are joined.

    Returns:
        The split.

    Raises:
        SettingError: No runs, or an impossible budget.
    """
    check_amount("budget", budget)
    if not forecasts:
        raise SettingError("budget: expected forecasts of at least one run, found none")
    steps, best = {}, {}
    for name, forecast in forecasts.items():
        step, reward, _ = courses_of(forecast)
        order = np.random.default_rng(seed_of(seed, "split", name)).permutation(len(reward))
        steps[name], best[name] = step, np.maximum.accumulate(reward[order], axis=1)
    draws = min(len(x) for x in best.values())
    best = {name: x[:draws] for name, x in best.items()}
    at, left = dict.fromkeys(best, 0), float(budget)
    begin = float(np.max([x[:, 0] for x in best.values()], axis=0).mean())
    while True:
        chosen = _most_worth(steps, best, at, left)
        if chosen is None:
            break
        name, place = chosen
        left -= steps[name][place] - steps[name][at[name]]
        at[name] = place
    ends = np.stack([x[:, at[name]] for name, x in best.items()])
    wins = np.bincount(np.argmax(ends, axis=0), minlength=len(ends)) / draws
    runs = [
        Given(name, float(steps[name][0]), float(steps[name][at[name]]), float(wins[i])) for i, name in enumerate(best)
    ]
    runs.sort(key=lambda run: (-run.steps, -run.best))
    return Split(float(budget), float(budget) - left, begin, float(ends.max(axis=0).mean()), tuple(runs))


def _most_worth(
    steps: Mapping[str, np.ndarray], best: Mapping[str, np.ndarray], at: Mapping[str, int], left: float
) -> tuple[str, int] | None:
    """Run and place of its next stop that raise the expected best most for a step; None where none does."""
    names, top, chosen = list(best), 0.0, None
    ends = np.stack([best[name][:, at[name]] for name in names])
    for i, name in enumerate(names):
        others = np.delete(ends, i, axis=0).max(axis=0, initial=-np.inf)
        now = np.maximum(others, ends[i])
        for place in range(at[name] + 1, len(steps[name])):
            cost = float(steps[name][place] - steps[name][at[name]])
            if cost > left:
                break
            gain = float((np.maximum(others, best[name][:, place]) - now).mean()) / cost
            if gain > top:
                top, chosen = gain, (name, place)
    return chosen
