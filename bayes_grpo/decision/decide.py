"""Whether to stop a run: what every stopping step is expected to be worth, from the draws of a forecast.

Stopping at step s instead of now is worth

    N(s) = V (R(s) - R(now)) - C (s - now),

with R the underlying reward (not a noisy logged row), V the value of one unit of reward and C the cost of a step.
The recommended step has the largest expectation of N; that is the step of least expected regret, because the best
that hindsight could have done is the same whatever is chosen (Raiffa and Schlaifer 1961, Applied Statistical Decision
Theory). Where the reward has fallen, the checkpoint from before is one more thing to choose: it is worth
V (R(best) - R(now)) at once, and at no cost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.decision.checkpoints import Checkpoints
from bayes_grpo.decision.recall import recalled, rewards_at_stops
from bayes_grpo.decision.result import Back, Decision

if TYPE_CHECKING:
    from bayes_grpo.forecasting.forecast import Forecast


def decide(
    forecast: Forecast, *, cost_per_step: float, value_per_reward: float, checkpoints: Checkpoints | None = None
) -> Decision:
    """Expected net value of every stopping step, and what follows from it.

    Args:
        forecast: The forecast; its steps are the stopping steps.
        cost_per_step: C, at least 0.
        value_per_reward: V, above 0, in the same unit.
        checkpoints: Checkpoints to return to; None to keep the last policy.

    Returns:
        The decision.

    Raises:
        SettingError: The forecast has no future step.
    """
    recall = None if checkpoints is None else recalled(forecast, checkpoints)
    step, reward = rewards_at_stops(forecast) if recall is None else (recall.step, recall.reward)
    rise = reward - reward[:, :1]
    paths = value_per_reward * rise - cost_per_step * (step - step[0])
    net = paths.mean(axis=0)
    low, high = np.quantile(paths, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    chosen = int(np.argmax(net))
    judged = chosen if chosen > 0 else 1 + int(np.argmax(net[1:]))
    fallen, back = forecast.fallen, None
    if fallen is not None and recall is None:
        lost = fallen.saved - fallen.now
        if value_per_reward * lost > net[chosen]:
            back = Back(fallen.saved_step, lost, value_per_reward * lost, fallen.at_once)
    if back is not None:  # what is lost is had at once, so that nothing is to be waited for
        chosen, judged = 0, max(judged, 1)
    return Decision(
        cost_per_step=float(cost_per_step),
        value_per_reward=float(value_per_reward),
        step=step,
        gain=rise.mean(axis=0),
        net=net,
        net_low=low,
        net_high=high,
        recommended=float(step[chosen]),
        pays_at=float(step[judged]),
        probability_pays=float(np.mean(paths[:, judged] > 0)),
        level=LEVEL,
        back=back,
        choice=None if recall is None else recall.choice,
        assumed=tuple(forecast.assumed),
        warnings=range_warnings(forecast),
    )


def range_warnings(forecast: Forecast) -> tuple[str, ...]:
    """A sentence where the largest reward is unknown: expectations then count gains that no reward can reach."""
    if math.isfinite(forecast.high):
        return ()
    return (
        "the largest possible reward is unknown, so these expectations may count impossible gains; "
        "set it: --set reward_high=1",
    )
