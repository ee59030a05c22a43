"""What a step costs and what reward is worth, and the decision that follows from a forecast."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.checkpoints import Checkpoints
from bayes_grpo.decision.decide import decide
from bayes_grpo.decision.result import Decision
from bayes_grpo.logs.finding import saved_checkpoints
from bayes_grpo.logs.run import Run

if TYPE_CHECKING:
    from bayes_grpo.forecasting.result import Forecast

LEAST_SCORES = 2
"""Fewer evaluation rewards than this do not distinguish checkpoints."""


@dataclass(frozen=True, kw_only=True)
class StoppingCosts:
    """Costs and values behind a decision about stopping; they are checked on construction.

    Attributes:
        cost_per_step: Cost of an optimizer step, in any unit.
        value_per_reward: Value of one unit of reward, in the same unit.
        checkpoints: Steps between checkpoints; default: read from the run (`with_checkpoints`).
        kept: Saved checkpoints; None to keep the policy at the stop.

    Raises:
        SettingError: A cost without a value, a value without a cost, or an impossible number.
    """

    cost_per_step: float | None = None
    value_per_reward: float | None = None
    checkpoints: float | None = None
    kept: Checkpoints | None = None

    def __post_init__(self) -> None:
        check_amount("--cost-per-step", self.cost_per_step)
        check_amount("--value-per-reward", self.value_per_reward, above=True)
        check_amount("--checkpoints", self.checkpoints, above=True)
        if (self.cost_per_step is None) != (self.value_per_reward is None):
            found, lacks = "--cost-per-step", "--value-per-reward"
            if self.cost_per_step is None:
                found, lacks = lacks, found
            raise SettingError(
                f"decision: found {found} without {lacks}; give both, the cost of a step and the value of one unit of "
                "reward in the same unit"
            )

    def answer(self, forecast: Forecast) -> Decision | None:
        """The decision at these costs; None without a cost and a value.

        Raises:
            SettingError: The forecast has no future step.
        """
        if self.cost_per_step is None or self.value_per_reward is None:
            return None
        return decide(
            forecast,
            cost_per_step=self.cost_per_step,
            value_per_reward=self.value_per_reward,
            checkpoints=self.kept,
        )


def check_amount(name: str, value: float | None, above: bool = False) -> None:
    """Raises `SettingError` unless a number that was given is finite and at least 0, or above 0."""
    if value is not None and not (math.isfinite(value) and (value > 0 or (value == 0 and not above))):
        wanted = "a finite number above 0" if above else "a finite number of at least 0"
        raise SettingError(f"{name}: expected {wanted}, found {value!r}")


def with_checkpoints(costs: StoppingCosts, run: Run) -> StoppingCosts:
    """The costs with the checkpoints of a run, where it keeps any.

    Args:
        costs: The user's costs; their checkpoints take precedence.
        run: The run: `checkpoint-*` next to its log, and its setting ``save_steps``. Its evaluation rewards, where
            there are two at least, rank the checkpoints.

    Returns:
        The costs with the checkpoints, or unchanged where the run keeps none.
    """
    last = float(max(run.step[-1:].max(initial=0.0), run.eval_step[-1:].max(initial=0.0)))
    there = np.array([x for x in saved_checkpoints(run.source) if x <= last], float)
    every = costs.checkpoints
    if every is None and run.settings.save_steps.value is not None:
        every = float(run.settings.save_steps.value)
    if costs.checkpoints is not None or not len(there):
        there = np.arange(1.0, np.floor(last / every) + 1.0) * every if every is not None else there
    else:
        every = every or float(np.median(np.diff(there))) if len(there) > 1 else every
    planned = run.settings.total_steps.value
    if not len(there) and (every is None or (planned is not None and every >= float(planned))):
        return costs
    kept = Checkpoints(there, np.inf if every is None else every)
    if len(run.eval_step) >= LEAST_SCORES:
        kept = kept._replace(scored=run.eval_step, score=run.eval_reward)
    return replace(costs, kept=kept)
