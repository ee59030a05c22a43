"""The question behind a decision: costs, values and gains as a user states them, and its answer from a forecast."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.budget import PROBABILITY, BudgetUnit, check_amount, check_probability, steps_for_gain
from bayes_grpo.decision.checkpoints import Checkpoints
from bayes_grpo.decision.decide import decide, range_warnings
from bayes_grpo.decision.recall import Doubt
from bayes_grpo.decision.result import Decision

if TYPE_CHECKING:
    from bayes_grpo.forecasting.result import Forecast


@dataclass(frozen=True, kw_only=True)
class Question:
    """A user's question about stopping; its values are checked on construction.

    Attributes:
        cost_per_step: Cost of an optimizer step, in money.
        value_per_reward: Value of one unit of reward, in money; in GPU hours where `gpu_hours_per_step` is given
            without a price.
        gpu_hours_per_step: GPU hours of an optimizer step, in place of a cost.
        price_per_gpu_hour: Price of a GPU hour, in money.
        gpus: GPUs of a step, to read its time from the log (`bayes_grpo.decision.price`).
        gain: Gain of the budget question.
        probability: Its probability; default `bayes_grpo.decision.budget.PROBABILITY`.
        steps_per_point: Number of steps that 0.01 of reward is worth, in place of a cost and a value.
        checkpoints: Steps between checkpoints; default: read from the run (`bayes_grpo.decision.price`).
        prompts: Completions per held-out score; default: the noise is estimated from the scores.
        selector: How to rank checkpoints: by "held-out" scores and the rows, by the train "reward" alone, or "auto"
            for held-out scores where available.
        cost_told: Source of a cost that was read from the log.
        kept: Saved checkpoints; None to keep the policy at the stop.

    Raises:
        SettingError: Numbers that do not belong together, one that lacks another, or an impossible one.
    """

    cost_per_step: float | None = None
    value_per_reward: float | None = None
    gpu_hours_per_step: float | None = None
    price_per_gpu_hour: float | None = None
    gpus: float | None = None
    gain: float | None = None
    probability: float | None = None
    steps_per_point: float | None = None
    checkpoints: float | None = None
    prompts: float | None = None
    selector: str = "auto"
    cost_told: str = ""
    kept: Checkpoints | None = None

    def __post_init__(self) -> None:
        check_amount("--cost-per-step", self.cost_per_step)
        check_amount("--value-per-reward", self.value_per_reward, above=True)
        check_amount("--gpu-hours-per-step", self.gpu_hours_per_step)
        check_amount("--price-per-gpu-hour", self.price_per_gpu_hour)
        check_amount("--gpus", self.gpus, above=True)
        check_amount("--gain", self.gain, above=True)
        check_amount("--steps-per-point", self.steps_per_point, above=True)
        check_amount("--checkpoints", self.checkpoints, above=True)
        check_amount("--prompts", self.prompts, above=True)
        check_probability("--probability", self.probability)
        if self.selector not in ("auto", "held-out", "reward"):
            raise SettingError(f"--selector: expected auto, held-out or reward, found {self.selector!r}")
        given = (self.cost_per_step, self.gpu_hours_per_step, self.gpus, self.value_per_reward)
        if self.steps_per_point is not None and any(x is not None for x in given):
            raise SettingError(
                "decision: found --steps-per-point with a cost or a value; it replaces both: give it alone"
            )
        if self.cost_per_step is not None and self.gpu_hours_per_step is not None:
            raise SettingError("decision: expected --cost-per-step or --gpu-hours-per-step, found both; give one")
        if self.gpus is not None and self.cost is not None:
            raise SettingError("decision: expected --gpus or the cost of a step, found both; give one")
        if self.price_per_gpu_hour is not None and self.gpu_hours_per_step is None and self.gpus is None:
            raise SettingError(
                "decision: found --price-per-gpu-hour without GPU hours to price; give --gpu-hours-per-step with it, "
                "or --gpus where the log has the time of a step"
            )
        costs = self.cost is not None or self.gpus is not None
        if costs and self.value is None and self.gain is None:
            raise SettingError(
                "decision: found a cost without a value; give --value-per-reward, what one unit of reward is worth in "
                "the unit of the cost, or --gain for the budget question"
            )
        if self.probability is not None and self.gain is None:
            raise SettingError(
                "decision: found --probability without --gain; give the gain that it is the probability of"
            )

    @property
    def cost(self) -> float | None:
        """Cost of an optimizer step in `unit`; None where none is given."""
        if self.steps_per_point is not None:
            return 1.0
        if self.gpu_hours_per_step is None:
            return self.cost_per_step
        return self.gpu_hours_per_step * (1.0 if self.price_per_gpu_hour is None else self.price_per_gpu_hour)

    @property
    def value(self) -> float | None:
        """Value of one unit of reward in `unit`; None where none is given."""
        return self.value_per_reward if self.steps_per_point is None else 100.0 * self.steps_per_point

    @property
    def unit(self) -> BudgetUnit:
        """Unit of cost and value."""
        if self.steps_per_point is not None:
            return "steps"
        return "GPU hours" if self.gpu_hours_per_step is not None and self.price_per_gpu_hour is None else ""

    @property
    def has_net_value(self) -> bool:
        """Whether it asks for the net value of stopping steps."""
        return self.cost is not None and self.value is not None

    def answer(self, forecast: Forecast, doubt: Doubt | None = None) -> Decision | None:
        """The decision for this question; None for an empty question.

        Args:
            forecast: The forecast.
            doubt: Penalty for reward hacking; None without a sign of it.

        Raises:
            SettingError: The forecast has no future step, or there is a value and no cost.
        """
        found = self._answer(forecast, doubt)
        return found and replace(found, cost_told=self.cost_told)

    def _answer(self, forecast: Forecast, doubt: Doubt | None) -> Decision | None:
        if self.cost is None and (self.value is not None or self.gpus is not None):
            raise SettingError(
                "decision: found --value-per-reward or --gpus without a cost; give --cost-per-step or "
                "--gpu-hours-per-step, or read the cost from the log (`priced`)"
            )
        wanted = PROBABILITY if self.probability is None else self.probability
        if self.cost is not None and self.value is not None:
            return decide(
                forecast,
                cost_per_step=self.cost,
                value_per_reward=self.value,
                unit=self.unit,
                gain=self.gain,
                probability=wanted,
                checkpoints=self.kept,
                doubt=doubt,
            )
        if self.gain is None:
            return None
        budget = steps_for_gain(forecast, self.gain, wanted, cost_per_step=self.cost, unit=self.unit)
        return Decision(None, budget, tuple(forecast.assumed), range_warnings(forecast))
