"""Whether to stop a run: what every stopping step is expected to be worth, from the draws of a forecast.

Stopping at step s instead of now is worth

    N(s) = V (R(s) - R(now)) - C (s - now),

with R the underlying reward (not a noisy logged row), V the value of one unit of reward and C the cost of a step.
The recommended step has the largest expectation of N; that is the step of least expected regret, because the best
that hindsight could have done is the same whatever is chosen (Raiffa and Schlaifer 1961, Applied Statistical Decision
Theory; https://en.wikipedia.org/wiki/Expected_value_of_perfect_information). Where a rule that looks at the rows to
come is worth clearly more, it is recommended first (`bayes_grpo.analysis.limit`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.analysis.budget import PROBABILITY, Budget, Unit, amount, check_amount, rise_of, steps_for_gain
from bayes_grpo.analysis.limit import Limit, best_limit
from bayes_grpo.intervals import LEVEL, Interval, interval, probability_text
from bayes_grpo.strict_json import json_safe

if TYPE_CHECKING:
    from bayes_grpo.analysis.forecast import Forecast


@dataclass(frozen=True, eq=False)
class Stopping:
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
        mean_regret_now: Its expectation.
        mean_regret_recommended: What the recommended step loses against it in expectation. The difference of the
            two is the expected net value of the recommended step.
        pays_at: The step whose net value decides whether continuing pays: the recommended one, or the best of
            the later ones where that is now.
        probability_pays: Probability that the net value at `pays_at` is above 0.
        level: Probability inside the intervals.
        limit: A rule on the rows to come that is worth more than any step fixed now; None where there is none.
    """

    cost_per_step: float
    value_per_reward: float
    unit: Unit
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
    mean_regret_now: float
    mean_regret_recommended: float
    pays_at: float
    probability_pays: float
    level: float
    limit: Limit | None

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
        return fixed if self.limit is None else f"{self.limit.sentence}. Fixed now: {fixed[0].lower()}{fixed[1:]}"

    @property
    def _fixed_sentence(self) -> str:
        """The best step that is fixed now, in words."""

        def net(step: float, i: Interval) -> str:
            return f"{amount(self.expected(step), self.unit)} [{amount(i.low)}, {amount(i.high)}] ({self.level:.0%})"

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

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary; `table` has one entry a stopping step."""
        names = ("step", "gain", "net", "net_low", "net_high", "best")
        limit = None if self.limit is None else self.limit.to_dict()
        columns = [getattr(self, name).tolist() for name in names]
        out = {
            f.name: value._asdict() if isinstance(value := getattr(self, f.name), Interval) else value
            for f in fields(self)
            if f.name not in (*names, "limit")
        }
        table = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return json_safe({"sentence": self.sentence} | out | {"limit": limit, "table": table})


@dataclass(frozen=True, eq=False)
class Decision:
    """What was asked about stopping.

    Attributes:
        stopping: What stopping at every step is worth; None where cost and value were not given.
        budget: The steps that a gain takes; None where that was not asked.
        assumed: What the forecast took for granted.
        warnings: Plain sentences about what not to believe.
    """

    stopping: Stopping | None
    budget: Budget | None
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The answers in words."""
        return " ".join(part.sentence for part in (self.stopping, self.budget) if part is not None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary."""
        return {
            "sentence": self.sentence,
            "stopping": None if self.stopping is None else self.stopping.to_dict(),
            "budget": None if self.budget is None else self.budget.to_dict(),
            "assumed": list(self.assumed),
            "warnings": list(self.warnings),
        }


def decide(
    forecast: Forecast,
    *,
    cost_per_step: float,
    value_per_reward: float,
    unit: Unit = "",
    gain: float | None = None,
    probability: float = PROBABILITY,
    level: float = LEVEL,
) -> Decision:
    """Expected net value of every stopping step, and what follows from it.

    Args:
        forecast: The forecast; its steps are the stopping steps.
        cost_per_step: C, at least 0.
        value_per_reward: V, above 0, in the same unit.
        unit: "GPU hours" where costs and values are GPU hours.
        gain: Gain of the budget question; None where it is not asked.
        probability: Probability of the budget question.
        level: Probability inside the intervals.

    Returns:
        The decision, with `stopping`.

    Raises:
        SettingError: A number is impossible, or the forecast has no future step.
    """
    check_amount("cost per step", cost_per_step)
    check_amount("value per unit of reward", value_per_reward, above=True)
    step, rise, rows = rise_of(forecast)
    paths = value_per_reward * rise - cost_per_step * (step - step[0])
    net = paths.mean(axis=0)
    low, high = np.quantile(paths, [(1 - level) / 2, (1 + level) / 2], axis=0)
    best = np.argmax(paths, axis=1)
    hindsight = paths[np.arange(len(paths)), best]
    chosen = int(np.argmax(net))
    judged = chosen if chosen > 0 else 1 + int(np.argmax(net[1:]))
    stopping = Stopping(
        cost_per_step=float(cost_per_step),
        value_per_reward=float(value_per_reward),
        unit=unit,
        step=step,
        gain=rise.mean(axis=0),
        net=net,
        net_low=low,
        net_high=high,
        best=np.bincount(best, minlength=len(step)) / len(paths),
        recommended=float(step[chosen]),
        recommended_net=interval(paths[:, chosen], level),
        best_step=interval(step[best], level),
        end_net=interval(paths[:, -1], level),
        regret_now=interval(hindsight, level),
        mean_regret_now=float(np.mean(hindsight)),
        mean_regret_recommended=float(np.mean(hindsight - paths[:, chosen])),
        pays_at=float(step[judged]),
        probability_pays=float(np.mean(paths[:, judged] > 0)),
        level=level,
        limit=best_limit(step, paths, rows, unit),
    )
    question = None
    if gain is not None:
        question = steps_for_gain(forecast, gain, probability, cost_per_step=cost_per_step, unit=unit)
    return Decision(stopping, question, tuple(forecast.assumed), range_warnings(forecast))


def range_warnings(forecast: Forecast) -> tuple[str, ...]:
    """A sentence where nobody stated the largest reward: expectations then count gains that no reward can reach."""
    if math.isfinite(forecast.high):
        return ()
    return (
        "nobody stated the largest possible reward, so gains that the task cannot give count in these expectations; "
        "state it: --set reward_high=1",
    )
