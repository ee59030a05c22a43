"""The result of a decision: what stopping at every step is worth, and the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import Interval, probability_text
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.decision.budget import Budget, BudgetUnit, amount
from bayes_grpo.decision.checkpoints import Choice

if TYPE_CHECKING:
    import pandas as pd


_COLUMNS = ("step", "gain", "net", "net_low", "net_high", "best")
"""What is known of every stopping step."""


GO_BACK, START_OVER = "Stop, and go back", "Stop, and start over"
"""How the advice on a run begins whose reward has fallen."""


@dataclass(frozen=True)
class Back(Result):
    """A checkpoint to go back to, because the reward has fallen since.

    Attributes:
        step: Last step at which the reward was near its best.
        gain: How much higher it was there than now, reward.
        net: What that is worth.
        unit: Unit of the value.
        at_once: Whether that was in the first rows: it is the policy that the run began with.
    """

    step: float
    gain: float
    net: float
    unit: BudgetUnit
    at_once: bool = False

    @property
    def sentence(self) -> str:
        """What to do, in words."""
        do, there = f"{GO_BACK} to the checkpoint of about step {self.step:.0f}", "that checkpoint"
        if self.at_once:
            do, there = START_OVER, "the policy that it began with"
        return (
            f"{do}: the reward has fallen by {self.gain:.2g} since, and {there} is worth "
            f"{amount(self.net, self.unit)} more than the present one."
        )


@dataclass(frozen=True, eq=False)
class Stopping(Result):
    """What stopping at every step is worth, in the unit of the costs given.

    Attributes:
        cost_per_step: C.
        value_per_reward: V.
        unit: "GPU hours", or "" for the user's own money.
        step: Stopping steps, the first of them now, the last the end of the forecast, shape (h,).
        gain: Expected gain of reward at each, shape (h,).
        net: Expected net value of each, shape (h,).
        net_low: Lower end of its interval, shape (h,).
        net_high: Upper end, shape (h,).
        best: Probability of each step to be the best one in hindsight, shape (h,).
        recommended: Step of the largest expected net value.
        recommended_net: Net value there.
        best_step: The best step in hindsight.
        end_net: Net value of continuing to the end.
        regret_now: What stopping now loses against the best step in hindsight.
        regret_later: What going on to `pays_at` loses against it.
        mean_regret_now: Its expectation.
        mean_regret_recommended: What the recommended step loses against it in expectation. The difference of the
            two is the expected net value of the recommended step.
        pays_at: The step whose net value decides whether continuing pays: the recommended one, or the best of
            the later ones where that is now.
        probability_pays: Probability that the net value at `pays_at` is above 0.
        level: Probability inside the intervals.
        back: A checkpoint that is worth more than going on; None where there is none, or any checkpoint can be had.
        choice: Which of the checkpoints so far to take; None where none are kept.
    """

    cost_per_step: float
    value_per_reward: float
    unit: BudgetUnit
    step: np.ndarray
    gain: np.ndarray
    net: np.ndarray
    net_low: np.ndarray
    net_high: np.ndarray
    best: np.ndarray
    recommended: float
    recommended_net: Interval
    best_step: Interval
    end_net: Interval
    regret_now: Interval
    regret_later: Interval
    mean_regret_now: float
    mean_regret_recommended: float
    pays_at: float
    probability_pays: float
    level: float
    back: Back | None = None
    choice: Choice | None = None

    in_json = ("sentence", "regrets", ..., "back", "choice", "table")
    not_in_json = _COLUMNS

    @property
    def table(self) -> list[dict[str, float]]:
        """One entry a stopping step."""
        columns = [getattr(self, name).tolist() for name in _COLUMNS]
        return [dict(zip(_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]

    @property
    def now(self) -> float:
        """Last logged step."""
        return float(self.step[0])

    @property
    def until(self) -> float:
        """Last step of the forecast."""
        return float(self.step[-1])

    def expected(self, step: float) -> float:
        """Expected net value of stopping at a step of the table."""
        return float(self.net[int(np.argmin(np.abs(self.step - step)))])

    @property
    def sentence(self) -> str:
        """The decision in words."""
        fixed = self._fixed_sentence
        if self.choice is not None:
            return f"{fixed} {self.choice.sentence}" if self.stops_now else fixed
        if self.back is not None:
            return f"{self.back.sentence} Without it: {fixed[0].lower()}{fixed[1:]}"
        return fixed

    @property
    def stops_now(self) -> bool:
        """Whether it says to stop at once."""
        return self.recommended <= self.now

    @property
    def regrets(self) -> str:
        """What either side loses, in words."""
        share = f"with probability {(1.0 + self.level) / 2.0:.0%}"

        def lost(mean: float, i: Interval) -> str:
            return f"{amount(mean, self.unit)} on average, at most {amount(i.high, self.unit)} {share}"

        later = self.mean_regret_now - self.expected(self.pays_at)
        return (
            f"Against hindsight stopping now loses {lost(self.mean_regret_now, self.regret_now)}; going on to step "
            f"{self.pays_at:g} loses {lost(later, self.regret_later)}."
        )

    @property
    def _fixed_sentence(self) -> str:
        """The best step that is fixed now, in words."""

        def net(step: float, i: Interval) -> str:
            return expectation_text(self.expected(step), i, self.unit)

        pays = probability_text(self.probability_pays)
        if self.recommended == self.now:
            text = (
                f"Stop now, at step {self.now:g}: no later step is expected to pay. The best of them, step "
                f"{self.pays_at:g}, has an expected net value of {amount(self.expected(self.pays_at), self.unit)} and "
                f"pays with probability {pays}"
            )
            if self.until != self.pays_at:
                text += f"; continuing to step {self.until:g}: {net(self.until, self.end_net)}"
            return text + "."
        more = self.recommended - self.now
        end = self.recommended == self.until
        text = (
            f"{'Continue to the end,' if end else 'Stop at'} step {self.recommended:g}, {more:g} more steps at a cost "
            f"of {amount(more * self.cost_per_step, self.unit)}: expected net value "
            f"{net(self.recommended, self.recommended_net)}, above 0 with probability {pays}; stopping now would give "
            f"up {amount(self.expected(self.recommended), self.unit)} on average"
        )
        if not end:
            text += f", continuing to step {self.until:g} is worth {amount(self.expected(self.until), self.unit)}"
        return text + "."


def expectation_text(mean: float, i: Interval, unit: BudgetUnit) -> str:
    """An expectation with its interval; the median, with a remark, where the mean lies outside the interval.

    Args:
        mean: The expectation.
        i: Median and interval of the same draws.
        unit: Of both.
    """
    span = f"[{amount(i.low)}, {amount(i.high)}]"
    if i.low <= mean <= i.high:
        return f"{amount(mean, unit)} {span} ({i.level:.0%})"
    return f"{amount(i.median, unit)} {span} (median, {i.level:.0%}; few paths make the mean {amount(mean, unit)})"


@dataclass(frozen=True, eq=False)
class Decision(Result):
    """Answers to a question about stopping.

    Attributes:
        stopping: Net value of stopping at every step; None without a cost and a value.
        budget: Steps that a gain takes; None without a gain.
        assumed: Assumptions of the forecast.
        warnings: Limits of the results, as sentences.
        cost_told: Source of a cost of a step that was read from the log.
    """

    stopping: Stopping | None
    budget: Budget | None
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cost_told: str = ""

    in_json = ("sentence", ...)

    @property
    def sentence(self) -> str:
        """The answers in words."""
        return " ".join(part.sentence for part in (self.stopping, self.budget) if part is not None)

    def to_frame(self) -> pd.DataFrame:
        """One row a stopping step: gain, net value and its interval, probability to be best. Empty without costs."""
        if self.stopping is None:
            return frame_of((), "step", _COLUMNS)
        table = frame_of(self.stopping.table, "step")
        table.attrs["interval_level"] = self.stopping.level
        return table
