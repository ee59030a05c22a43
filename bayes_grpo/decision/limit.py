"""A limit for stopping: at the first logged row that reaches a value, and at a last step if none does.

A step that is fixed today cannot use the rows to come. Where the reward swings, or where it is open whether it takes
off, a rule that looks at them is worth more. The simplest one has two numbers, a value and a last step; what it is
worth is read off the paths of a forecast, which hold what the log will show and the reward behind it. Choosing the
numbers is an optimal stopping problem over threshold rules (https://en.wikipedia.org/wiki/Optimal_stopping); they are
chosen on one half of the paths and valued on the other, so that chance in the paths does not pay.

Rows tell of an older policy than the one that a stop keeps (`Forecast.lag`). On a swing the reward is then further
along than they show, and a value means one thing on the way up and another on the way down: so a rule may ask that the
row before lay below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.decision.budget import BudgetUnit, amount

_LEVELS = 16
"""Values tried: quantiles of the rows to come."""
LEAST_GAIN = 0.01
"""What a rule must be worth more than a fixed step, as a share of the mean difference between the best and the worst
step of a path: less is not worth the watching."""
ERRORS = 3.0
"""By how many of its standard errors the difference must exceed 0."""


@dataclass(frozen=True)
class Limit(Result):
    """Stop at the first logged row of at least `reward`, at the latest at step `latest`.

    Attributes:
        reward: The value that a logged row has to reach.
        rising: Whether the row before has to lie below it.
        latest: The last step.
        every: Steps from look to look: those between the rows of the forecast.
        net: Expected net value.
        more: How much that is above the best step that is fixed now.
        reached: Probability that a row reaches the value before the last step.
        unit: Unit of the values.
    """

    reward: float
    rising: bool
    latest: float
    every: float
    net: float
    more: float
    reached: float
    unit: BudgetUnit

    in_json = (..., "sentence")

    @property
    def sentence(self) -> str:
        """The rule in words."""
        after = " after a lower one" if self.rising else ""
        return (
            f"Stop at the first logged reward of at least {self.reward:.3g}{after}, looking every {self.every:.3g} "
            f"steps, and at step {self.latest:g} if none comes (with probability {self.reached:.2f} one does): "
            f"expected net value {amount(self.net, self.unit)}, {amount(self.more, self.unit)} more than the best step "
            "that is fixed now"
        )


def best_limit(
    step: np.ndarray, net: np.ndarray, rows: np.ndarray, unit: BudgetUnit = "", last_row: float = np.nan
) -> Limit | None:
    """The best rule with one value and one last step.

    Args:
        step: Stopping steps, the first of them now, shape (1 + h,).
        net: Net value of each draw at each step, shape (draws, 1 + h).
        rows: What the log shows of each draw at the steps after now, shape (draws, h).
        unit: Unit of the values.
        last_row: The last logged row; NaN where it is not known, and counts as higher.

    Returns:
        The rule; None where no rule is clearly worth more than the best fixed step.
    """
    fitted, held = np.arange(len(net)) % 2 == 0, np.arange(len(net)) % 2 == 1
    if held.sum() < 2 or len(step) < 3:
        return None
    values = np.quantile(rows, np.linspace(0.2, 0.99, _LEVELS))
    before = np.column_stack([np.full(len(rows), np.inf if np.isnan(last_row) else last_row), rows[:, :-1]])
    seen, earlier, worths = rows[fitted], before[fitted], net[fitted]  # copies: not in the loop
    best, chosen = -np.inf, None
    for value in values:
        for rising in (False, True):
            first = _first(seen, earlier, value, rising)
            for last in range(1, len(step)):
                worth = _net(worths, first, last).mean()
                if worth > best:
                    best, chosen = worth, (float(value), rising, last)
    if chosen is None:
        return None
    value, rising, last = chosen
    first = _first(rows[held], before[held], value, rising)
    ours = _net(net[held], first, last)
    more = ours - net[held, int(np.argmax(net.mean(axis=0)))]
    swing = float(np.mean(net.max(axis=1) - net.min(axis=1)))
    error = float(more.std() / np.sqrt(len(more)))
    if more.mean() < max(ERRORS * error, LEAST_GAIN * swing):
        return None
    return Limit(
        reward=value,
        rising=rising,
        latest=float(step[last]),
        every=float(np.median(np.diff(step))),
        net=float(ours.mean()),
        more=float(more.mean()),
        reached=float(np.mean(first < last)),
        unit=unit,
    )


def _first(rows: np.ndarray, before: np.ndarray, value: float, rising: bool) -> np.ndarray:
    """Place in the stopping steps of the first row of each draw that reaches a value; one past the last if none."""
    there = (rows >= value) & (before < value) if rising else rows >= value
    return 1 + np.where(there.any(axis=1), there.argmax(axis=1), rows.shape[1])


def _net(net: np.ndarray, first: np.ndarray, last: int) -> np.ndarray:
    """Net value of each draw under the rule."""
    return net[np.arange(len(net)), np.minimum(first, last)]
