"""Whether to stop a run: what every stopping step is expected to be worth, from the draws of a forecast.

Stopping at step s instead of now is worth

    N(s) = V (R(s) - R(now)) - C (s - now),

with R the underlying reward (not a noisy logged row), V the value of one unit of reward and C the cost of a step.
The recommended step has the largest expectation of N; that is the step of least expected regret, because the best
that hindsight could have done is the same whatever is chosen (Raiffa and Schlaifer 1961, Applied Statistical Decision
Theory; https://en.wikipedia.org/wiki/Expected_value_of_perfect_information). Where the reward has fallen, the
checkpoint from before is one more thing to choose: it is worth V (R(best) - R(now)) at once, and at no cost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.decision.budget import PROBABILITY, BudgetUnit, check_amount, rise_of, steps_for_gain
from bayes_grpo.decision.checkpoints import Checkpoints
from bayes_grpo.decision.recall import Doubt, recalled, undeserved
from bayes_grpo.decision.result import Back, Decision, Stopping

if TYPE_CHECKING:
    from bayes_grpo.forecasting.result import Forecast


def decide(
    forecast: Forecast,
    *,
    cost_per_step: float,
    value_per_reward: float,
    unit: BudgetUnit = "",
    gain: float | None = None,
    probability: float = PROBABILITY,
    level: float = LEVEL,
    checkpoints: Checkpoints | None = None,
    doubt: Doubt | None = None,
) -> Decision:
    """Expected net value of every stopping step, and what follows from it.

    Args:
        forecast: The forecast; its steps are the stopping steps.
        cost_per_step: C, at least 0.
        value_per_reward: V, above 0, in the same unit.
        unit: "GPU hours" where costs and values are GPU hours.
        gain: Gain of the budget question; None without one.
        probability: Probability of the budget question.
        level: Probability inside the intervals.
        checkpoints: Checkpoints to return to; None to keep the last policy.
        doubt: Penalty for reward hacking; None without a sign of it.

    Returns:
        The decision, with `stopping`.

    Raises:
        SettingError: A number is impossible, or the forecast has no future step.
    """
    check_amount("cost per step", cost_per_step)
    check_amount("value per unit of reward", value_per_reward, above=True)
    recall = None if checkpoints is None else recalled(forecast, checkpoints, doubt)
    if recall is None:
        step, rise = rise_of(forecast)
        rise = undeserved(rise, doubt, float(step[0]))
    else:
        step, rise = recall.step, recall.reward - recall.reward[:, :1]
    paths = value_per_reward * rise - cost_per_step * (step - step[0])
    net = paths.mean(axis=0)
    low, high = np.quantile(paths, [(1 - level) / 2, (1 + level) / 2], axis=0)
    best = np.argmax(paths, axis=1)
    hindsight = paths[np.arange(len(paths)), best]
    chosen = int(np.argmax(net))
    judged = chosen if chosen > 0 else 1 + int(np.argmax(net[1:]))
    fallen, back = forecast.fallen, None
    if fallen is not None and recall is None:
        lost = fallen.saved - fallen.now
        if value_per_reward * lost > net[chosen]:
            back = Back(fallen.saved_step, lost, value_per_reward * lost, unit, fallen.at_once)
    if back is not None:  # what is lost is had at once, so that nothing is to be waited for
        chosen, judged = 0, max(judged, 1)
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
        regret_later=interval(hindsight - paths[:, judged], level),
        mean_regret_now=float(np.mean(hindsight)),
        mean_regret_recommended=float(np.mean(hindsight - paths[:, chosen])),
        pays_at=float(step[judged]),
        probability_pays=float(np.mean(paths[:, judged] > 0)),
        level=level,
        back=back,
        choice=None if recall is None else recall.choice,
    )
    question = None
    if gain is not None:
        question = steps_for_gain(forecast, gain, probability, cost_per_step=cost_per_step, unit=unit)
    return Decision(stopping, question, tuple(forecast.assumed), range_warnings(forecast))


def range_warnings(forecast: Forecast) -> tuple[str, ...]:
    """A sentence where the largest reward is unknown: expectations then count gains that no reward can reach."""
    if math.isfinite(forecast.high):
        return ()
    return (
        "the largest possible reward is unknown, so these expectations may count impossible gains; "
        "set it: --set reward_high=1",
    )
