"""The budget question: how many more steps a gain of reward takes, from the draws of a forecast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.results import Result

if TYPE_CHECKING:
    from bayes_grpo.forecasting.result import Forecast

BudgetUnit = Literal["", "GPU hours", "steps"]
"""Unit of costs and values: that of the user's own prices, GPU hours where no price is given, or steps of the run."""

PROBABILITY = 0.8
"""Probability of the budget question where none is given."""


@dataclass(frozen=True)
class Budget(Result):
    """How many more steps a gain takes.

    Attributes:
        gain: Wanted gain of the underlying reward over its value now.
        probability: Wanted probability that it is there.
        until: Last step of the forecast.
        step: First forecast step at which it is; None where there is none.
        steps: Optimizer steps from now until then; None likewise.
        cost: What they cost; None without a cost or without such a step.
        unit: Unit of the cost.
        highest: Highest probability of the gain at any forecast step.
        highest_step: The step of that.
        ever: Probability that the reward ends up at least that far above where it is, under the remaining schedule.
    """

    gain: float
    probability: float
    until: float
    step: float | None
    steps: float | None
    cost: float | None
    unit: BudgetUnit
    highest: float
    highest_step: float
    ever: float

    in_json = (..., "sentence")

    @property
    def sentence(self) -> str:
        """The answer in words."""
        question = f"A gain of {self.gain:g} with probability {self.probability:g}"
        if self.steps is not None:
            price = "" if self.cost is None else f", at a cost of {amount(self.cost, self.unit)}"
            return f"{question} takes {self.steps:g} more steps, to step {self.step:g}{price}."
        text = (
            f"{question} is not reached by step {self.until:g}: its probability is highest at step "
            f"{self.highest_step:g}, {probability_text(self.highest)}"
        )
        if math.isfinite(self.ever):
            text += (
                f"; the reward ends up that far above where it is now with probability {probability_text(self.ever)}"
            )
        return text + "."


def steps_for_gain(
    forecast: Forecast,
    gain: float,
    probability: float = PROBABILITY,
    *,
    cost_per_step: float | None = None,
    unit: BudgetUnit = "",
) -> Budget:
    """How many more steps until the underlying reward has gained ``gain`` with probability ``probability``.

    Args:
        forecast: The forecast.
        gain: Gain over the underlying reward now, above 0.
        probability: Between 0 and 1.
        cost_per_step: For the cost of these steps.
        unit: Unit of the cost.

    Returns:
        The first forecast step at which the gain is there with that probability, or that there is none.

    Raises:
        SettingError: A number is impossible, or the forecast has no future step.
    """
    check_amount("gain", gain, above=True)
    check_probability("probability", probability)
    step, rise = rise_of(forecast)
    there = np.mean(rise >= gain, axis=0)
    enough, highest = np.flatnonzero(there >= probability), int(np.argmax(there))
    first = float(step[enough[0]]) if enough.size else None
    steps = None if first is None else first - float(step[0])
    settled = np.asarray(forecast.final) - np.asarray(forecast.latent_now)
    settled = settled[np.isfinite(settled)]
    return Budget(
        gain=float(gain),
        probability=float(probability),
        until=float(step[-1]),
        step=first,
        steps=steps,
        cost=None if steps is None or cost_per_step is None else steps * cost_per_step,
        unit=unit,
        highest=float(there[highest]),
        highest_step=float(step[highest]),
        ever=float(np.mean(settled >= gain)) if settled.size else float("nan"),
    )


def check_amount(name: str, value: float | None, above: bool = False) -> None:
    """Raises `SettingError` unless a number that was given is finite and at least 0, or above 0."""
    if value is not None and not (math.isfinite(value) and (value > 0 or (value == 0 and not above))):
        wanted = "a finite number above 0" if above else "a finite number of at least 0"
        raise SettingError(f"{name}: expected {wanted}, found {value!r}")


def check_probability(name: str, value: float | None) -> None:
    """Raises `SettingError` unless a number that was given lies strictly between 0 and 1."""
    if value is not None and not 0.0 < value < 1.0:
        raise SettingError(f"{name}: expected a number strictly between 0 and 1, found {value!r}")


def amount(value: float, unit: BudgetUnit = "") -> str:
    """A cost or value in words, with no more digits than it has meaning."""
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.3g}" if size >= 0.1 else f"{value:.2g}"
    return f"{text} {unit}".rstrip()


def rise_of(forecast: Forecast) -> tuple[np.ndarray, np.ndarray]:
    """Stopping steps from now on, and what is gained at each; as `courses_of`, less the reward now."""
    step, reward = courses_of(forecast)
    return step, reward - reward[:, :1]


def courses_of(forecast: Forecast) -> tuple[np.ndarray, np.ndarray]:
    """Stopping steps from now on, and the reward of every finite draw at them.

    A stop keeps the policy of that step. Logged rows describe older policies, so its reward is that of the rows a
    `Forecast.lag` later. Beyond the horizon the reward stays constant. Where the learning rate reaches zero before the
    horizon, that step is the last one, because later stops gain nothing.

    Returns:
        Steps, the first of them now, shape (1 + h,); reward of every draw at them, shape (draws, 1 + h).
    """
    step = np.asarray(forecast.step, float)
    if not step.size:
        raise SettingError("decision: the forecast has no future step to stop at; ask for a later last step")
    latent = np.concatenate(
        [np.asarray(forecast.latent_now, float)[:, None], np.asarray(forecast.latent, float)], axis=1
    )
    finite = np.isfinite(latent).all(axis=1) & np.isfinite(forecast.rows).all(axis=1)
    if not finite.any():
        raise SettingError("decision: no draw of the forecast is finite; forecast with another regime")
    step = np.concatenate([[forecast.now], step])
    reward = at_places(step + forecast.lag, step, latent[finite])
    last = max(1, int(np.searchsorted(step, forecast.schedule.ends)))
    if last < len(step) - 1 or step[-1] > forecast.schedule.ends > step[0]:
        step = np.append(step[:last], min(step[last], max(math.ceil(forecast.schedule.ends), step[last - 1] + 1.0)))
        reward = reward[:, : last + 1]
    return step, reward


def at_places(places: np.ndarray, step: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """Paths of shape (draws, h) at places between their steps: linear interpolation, constant beyond the last step."""
    if not len(places) or np.array_equal(places, step):
        return paths[:, : len(places)]
    before = np.clip(np.searchsorted(step, places, side="right") - 1, 0, len(step) - 2)
    share = np.clip((places - step[before]) / (step[before + 1] - step[before]), 0.0, 1.0)
    return (1.0 - share) * paths[:, before] + share * paths[:, before + 1]
