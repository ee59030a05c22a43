"""When to stop a run: the expected value of every stopping step, from the draws of a forecast and the costs.

Stopping at step s instead of now is worth

    N(s) = V (R(s) - R(now)) - C (s - now),

with R the underlying reward (not a noisy logged row), V the value of one unit of reward and C the cost of a step.
The recommended step has the largest expectation of N; that is the step of least expected regret, because the best
that hindsight could have done is the same whatever is chosen (Raiffa and Schlaifer 1961, Applied Statistical Decision
Theory). Where the reward has fallen, the checkpoint from before is one more thing to choose: it is worth
V (R(best) - R(now)) at once, and at no cost.

A stop is recommended at a stated cost alone: on public logs no recommended stop was better than running to the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, band
from bayes_grpo.decision.checkpoints import Checkpoints, recalled, rewards_at_stops
from bayes_grpo.decision.result import Back, Decision
from bayes_grpo.logs.finding import saved_checkpoints
from bayes_grpo.logs.run import Run

if TYPE_CHECKING:
    from bayes_grpo.forecasting.forecast import Forecast


def decide(
    forecast: Forecast,
    *,
    cost_per_step: float | None = None,
    value_per_reward: float = 1.0,
    checkpoints: Checkpoints | None = None,
) -> Decision:
    """Expected net value of every stopping step, and what follows from it.

    Args:
        forecast: The forecast; its steps are the stopping steps.
        cost_per_step: C, at least 0; None if unknown: steps then count as free, and no stop is recommended.
        value_per_reward: V, above 0, in the same unit.
        checkpoints: Checkpoints to return to; None to keep the last policy.

    Returns:
        The decision.

    Raises:
        SettingError: The forecast has no future step.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> decide(forecast(run, horizon=60.0), cost_per_step=1.0, value_per_reward=10.0).recommended
        30.0
    """
    choice = None
    if checkpoints is None:
        step, reward = rewards_at_stops(forecast)
    else:
        step, reward, choice = recalled(forecast, checkpoints)
    rise = reward - reward[:, :1]
    paths = value_per_reward * rise - (cost_per_step or 0.0) * (step - step[0])
    net = paths.mean(axis=0)
    low, _, high = band(paths)
    chosen = _end_of_equals(paths, int(np.argmax(net)))
    judged = chosen if chosen > 0 else 1 + int(np.argmax(net[1:]))
    fallen, back = forecast.fallen, None
    if fallen is not None and choice is None and cost_per_step is not None:
        loss = fallen.saved - fallen.now
        if value_per_reward * loss > net[chosen]:
            back = Back(fallen.saved_step, loss, value_per_reward * loss, fallen.at_once)
    if back is not None:  # what is lost is had at once, so that nothing is to be waited for
        chosen, judged = 0, max(judged, 1)
    return Decision(
        cost_per_step=None if cost_per_step is None else float(cost_per_step),
        value_per_reward=float(value_per_reward),
        step=step,
        gain=rise.mean(axis=0),
        net=net,
        net_low=low,
        net_high=high,
        recommended=None if cost_per_step is None else float(step[chosen]),
        pays_at=float(step[judged]),
        probability_pays=float(np.mean(paths[:, judged] > 0)),
        level=LEVEL,
        back=back,
        choice=choice,
        assumed=tuple(forecast.assumed),
        warnings=() if math.isfinite(forecast.high) else (_NO_RANGE,),
    )


def _end_of_equals(paths: np.ndarray, best: int) -> int:
    """The best stopping step, or the end where the paths, shape (draws, h), cannot tell them apart; now stays now."""
    more = paths[:, best] - paths[:, -1]
    higher = float(more.mean()) > _SURE_ERRORS * float(more.std()) / math.sqrt(len(more))
    return best if best == 0 or higher else paths.shape[1] - 1


_SURE_ERRORS = 2.0
"""Standard errors of a mean over draws by which two of them differ surely."""


_NO_RANGE = (
    "the largest possible reward is unknown, so these expectations may count impossible gains; "
    "set it: --set reward_high=VALUE"
)
LEAST_SCORES = 2
"""Fewer evaluation rewards than this do not distinguish checkpoints."""


@dataclass(frozen=True, kw_only=True)
class StoppingCosts:
    """Costs and values behind a decision about stopping; they are checked on construction.

    Attributes:
        cost_per_step: Cost of an optimizer step, in any unit.
        value_per_reward: Value of one unit of reward, in the same unit.
        checkpoints: Steps between checkpoints; default: read from the run (`with_checkpoints`).
        saved: Saved checkpoints; None to keep the policy at the stop.

    Raises:
        SettingError: A cost without a value, or an impossible number.

    Examples:
        A hundredth of reward is worth 50 steps:

        >>> StoppingCosts(cost_per_step=1.0, value_per_reward=5000.0).value_per_reward
        5000.0
    """

    cost_per_step: float | None = None
    value_per_reward: float | None = None
    checkpoints: float | None = None
    saved: Checkpoints | None = None

    def __post_init__(self) -> None:
        check_amount("cost_per_step", self.cost_per_step)
        check_amount("value_per_reward", self.value_per_reward, above=True)
        check_amount("checkpoints", self.checkpoints, above=True)
        if self.cost_per_step is not None and self.value_per_reward is None:
            raise SettingError(
                "found a cost without a value; give the value of one unit of reward in the unit of the cost",
                parameter="value_per_reward",
            )

    def answer(self, forecast: Forecast) -> Decision | None:
        """The decision at these costs, with no recommended stop where no cost is given; None where nothing is given."""
        if self.value_per_reward is None and self.checkpoints is None:
            return None
        return decide(
            forecast,
            cost_per_step=self.cost_per_step,
            value_per_reward=1.0 if self.value_per_reward is None else self.value_per_reward,
            checkpoints=self.saved,
        )


def check_amount(name: str, value: float | None, above: bool = False) -> None:
    """Raises `SettingError` unless a number that was given is finite and at least 0, or above 0."""
    if value is not None and not (math.isfinite(value) and (value > 0 or (value == 0 and not above))):
        wanted = "a finite number above 0" if above else "a finite number of at least 0"
        raise SettingError(f"expected {wanted}, found {value!r}", parameter=name)


def with_checkpoints(costs: StoppingCosts, run: Run) -> StoppingCosts:
    """The costs with the checkpoints of a run: `checkpoint-*` next to its log, and its setting ``save_steps``.

    The user's steps between checkpoints take precedence. Two or more evaluation rewards rank the checkpoints. The costs
    are unchanged where the run keeps none.
    """
    last = float(max(run.step[-1:].max(initial=0.0), run.eval_step[-1:].max(initial=0.0)))
    saved_steps = np.array([x for x in saved_checkpoints(run.source) if x <= last], float)
    every = costs.checkpoints
    if every is None and run.settings.save_steps.value is not None:
        every = float(run.settings.save_steps.value)
    if costs.checkpoints is not None or not len(saved_steps):
        saved_steps = np.arange(1.0, np.floor(last / every) + 1.0) * every if every is not None else saved_steps
    else:
        every = every or float(np.median(np.diff(saved_steps))) if len(saved_steps) > 1 else every
    planned = run.settings.total_steps.value
    if not len(saved_steps) and (every is None or (planned is not None and every >= float(planned))):
        return costs
    saved = Checkpoints(saved_steps, np.inf if every is None else every)
    if len(run.eval_step) >= LEAST_SCORES:
        saved = saved._replace(scored=run.eval_step, score=run.eval_reward)
    return replace(costs, saved=saved)
