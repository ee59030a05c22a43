"""Flags that ask a forecast when to stop: costs and values, GPU hours, and the budget question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_grpo.errors import SettingError

if TYPE_CHECKING:
    from bayes_grpo.analysis.budget import Unit
    from bayes_grpo.analysis.decision import Decision
    from bayes_grpo.analysis.forecast import Forecast

CostPerStep = Annotated[float | None, typer.Option(help="Cost of an optimizer step, in money; asks when to stop.")]
ValuePerReward = Annotated[
    float | None,
    typer.Option(help="What one unit of reward is worth: in money, or in GPU hours where no price is given."),
]
GpuHoursPerStep = Annotated[float | None, typer.Option(help="GPU hours of an optimizer step, in place of a cost.")]
PricePerGpuHour = Annotated[float | None, typer.Option(help="Price of a GPU hour, which turns GPU hours into money.")]
Gain = Annotated[float | None, typer.Option(help="Asks how many more steps this gain of reward takes.")]
Probability = Annotated[
    float | None, typer.Option(help="Probability with which the gain shall be there (default 0.8).")
]


def check_plot(
    plot: Path | None, cost_per_step: float | None, gpu_hours_per_step: float | None, value_per_reward: float | None
) -> None:
    """Raises `SettingError` where a picture of net values is asked for without the numbers that make them."""
    if plot is not None and (value_per_reward is None or (cost_per_step is None and gpu_hours_per_step is None)):
        raise SettingError(
            "--plot-decision: draws net values; give --value-per-reward and --cost-per-step or --gpu-hours-per-step"
        )


def decision_of(
    forecast: Forecast,
    cost_per_step: float | None = None,
    value_per_reward: float | None = None,
    gpu_hours_per_step: float | None = None,
    price_per_gpu_hour: float | None = None,
    gain: float | None = None,
    probability: float | None = None,
) -> Decision | None:
    """The decision that a set of optional flags asks for.

    Args:
        forecast: The forecast.
        cost_per_step: Cost of an optimizer step, in money.
        value_per_reward: Value of one unit of reward, in money; in GPU hours where `gpu_hours_per_step` is given
            without a price.
        gpu_hours_per_step: GPU hours of an optimizer step, in place of a cost.
        price_per_gpu_hour: Turns them into money.
        gain: Gain of the budget question.
        probability: Its probability; `PROBABILITY` where not given.

    Returns:
        The decision, or None where nothing was asked.

    Raises:
        SettingError: Flags that do not belong together, one that lacks another, or an impossible number.
    """
    from bayes_grpo.analysis.budget import PROBABILITY, steps_for_gain
    from bayes_grpo.analysis.decision import Decision, decide, range_warnings

    check_flags(cost_per_step, value_per_reward, gpu_hours_per_step, price_per_gpu_hour, gain, probability)
    unit: Unit = "GPU hours" if gpu_hours_per_step is not None and price_per_gpu_hour is None else ""
    cost, wanted = cost_per_step, PROBABILITY if probability is None else probability
    if gpu_hours_per_step is not None:
        cost = gpu_hours_per_step * (1.0 if price_per_gpu_hour is None else price_per_gpu_hour)
    if cost is not None and value_per_reward is not None:
        return decide(
            forecast, cost_per_step=cost, value_per_reward=value_per_reward, unit=unit, gain=gain, probability=wanted
        )
    if gain is None:
        return None
    answer = steps_for_gain(forecast, gain, wanted, cost_per_step=cost, unit=unit)
    return Decision(None, answer, tuple(forecast.assumed), range_warnings(forecast))


def check_flags(
    cost_per_step: float | None,
    value_per_reward: float | None,
    gpu_hours_per_step: float | None,
    price_per_gpu_hour: float | None,
    gain: float | None,
    probability: float | None,
) -> None:
    """Raises `SettingError` where the flags of `decision_of` are no question, before anything is fitted."""
    from bayes_grpo.analysis.budget import check_amount, check_probability

    check_amount("--cost-per-step", cost_per_step)
    check_amount("--value-per-reward", value_per_reward, above=True)
    check_amount("--gpu-hours-per-step", gpu_hours_per_step)
    check_amount("--price-per-gpu-hour", price_per_gpu_hour)
    check_amount("--gain", gain, above=True)
    check_probability("--probability", probability)
    if cost_per_step is not None and gpu_hours_per_step is not None:
        raise SettingError("decision: expected --cost-per-step or --gpu-hours-per-step, found both; give one")
    if price_per_gpu_hour is not None and gpu_hours_per_step is None:
        raise SettingError(
            "decision: found --price-per-gpu-hour without GPU hours to price; give --gpu-hours-per-step with it"
        )
    has_cost = cost_per_step is not None or gpu_hours_per_step is not None
    if has_cost and value_per_reward is None and gain is None:
        raise SettingError(
            "decision: found a cost without a value; give --value-per-reward, what one unit of reward is worth in the "
            "unit of the cost, or --gain for the budget question"
        )
    if value_per_reward is not None and not has_cost:
        raise SettingError(
            "decision: found --value-per-reward without a cost; give --cost-per-step, or --gpu-hours-per-step with or "
            "without --price-per-gpu-hour"
        )
    if probability is not None and gain is None:
        raise SettingError("decision: found --probability without --gain; give the gain that it is the probability of")
