"""When does the reward reach a value? The first step until the horizon at which each path crosses it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, Interval, percent

if TYPE_CHECKING:
    from bayes_grpo.forecasting.result import Forecast


@dataclass(frozen=True)
class Reach:
    """When the underlying reward first reaches a value.

    Attributes:
        reward: The value.
        rising: Whether it is reached from below.
        already: Probability that it is reached by now.
        by_horizon: Probability that it is reached by the horizon.
        step: Median and interval over paths; the last logged step stands for "by now", infinity for "not by the
            horizon".
        until: The horizon.
        now: Last logged step.
    """

    reward: float
    rising: bool
    already: float
    by_horizon: float
    step: Interval
    until: float
    now: float

    @property
    def sentence(self) -> str:
        """The answer in words."""
        what = f"the underlying reward {'reaches' if self.rising else 'falls to'} {self.reward:g}"
        if self.already > 0.5:
            return f"{what}: {percent(self.already)} chance that it is there now"
        text = f"{what} by step {self.until:g}: {percent(self.by_horizon)} chance"
        if not math.isfinite(self.step.low):
            return text
        low, middle, high = (self._step_text(x) for x in (self.step.low, self.step.median, self.step.high))
        return f"{text}, at step {middle} [{low}, {high}] ({self.step.level:.0%})"

    def _step_text(self, step: float) -> str:
        return "later" if math.isinf(step) else f"{self.now:g} or before" if step <= self.now else f"{step:.0f}"


def reach_of(forecast: Forecast, reward: float, level: float = LEVEL) -> Reach:
    """When a forecast's paths reach a value.

    Args:
        forecast: The forecast.
        reward: The value, in the unit of the reward.
        level: Probability inside the interval.

    Returns:
        The steps, between two rows of the forecast by a straight line.

    Raises:
        SettingError: The value is not a finite number, or lies outside the reward's range.
    """
    f = forecast
    if not math.isfinite(reward) or not f.low <= reward <= f.high:
        span = f"between {f.low:g} and {f.high:g}" if math.isfinite(f.low) or math.isfinite(f.high) else "a number"
        raise SettingError(f"reach: expected a reward {span}, found {reward:g}; correct it, or --set its range")
    path = np.concatenate([f.latent_now[:, None], f.latent], axis=1)
    step = np.concatenate([[f.now], f.step])
    rising = bool(np.median(f.latent_now) < reward)
    first = crossings(step, path if rising else -path, reward if rising else -reward)
    # Between a finite step and "never" there is nothing to interpolate.
    low, median, high = np.quantile(first, [(1 - level) / 2, 0.5, (1 + level) / 2], method="inverted_cdf")
    return Reach(
        reward=float(reward),
        rising=rising,
        already=float(np.mean(first <= f.now)),
        by_horizon=float(np.mean(np.isfinite(first))),
        step=Interval(float(median), float(low), float(high), level),
        until=f.until,
        now=f.now,
    )


def crossings(step: np.ndarray, path: np.ndarray, target: float) -> np.ndarray:
    """First step at which each path is at or above a value; infinity where it never is.

    Args:
        step: Steps, shape (h,), increasing.
        path: Paths, shape (draws, h), straight between steps.
        target: The value.

    Returns:
        Shape (draws,); the first step for a path that starts there.
    """
    done = path >= target
    first = done.argmax(axis=1)
    before, draws = np.maximum(first - 1, 0), np.arange(len(path))
    rise = path[draws, first] - path[draws, before]
    part = np.where(rise != 0, (target - path[draws, before]) / np.where(rise != 0, rise, 1.0), 1.0)
    at = step[before] + np.clip(part, 0.0, 1.0) * (step[first] - step[before])
    return np.where(done.any(axis=1), np.where(first == 0, step[0], at), np.inf)
