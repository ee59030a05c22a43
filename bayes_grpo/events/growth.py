"""Growth: of a whole run, and whether it still goes on."""

from __future__ import annotations

import numpy as np

from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, TRUTH
from bayes_grpo.events.definition import Definition
from bayes_grpo.events.trend import Trend

_B = BORDERS
GREW = Definition("grew", DIAGNOSIS, "", "the trend ends more than the noise sd of a row above its start")
GOING = Definition(
    "going", DIAGNOSIS, "", f"the trend gains more than {_B.going:.0%} of the range over the second half of the log"
)
LEARNED = Definition(
    "healthy",
    TRUTH,
    "",
    f"no event, and the deserved reward ends above {_B.solved_truth:.0%} of what is attainable, or gained more than "
    f"{_B.learned:.0%} of it and is going on: its last quarter is more than {_B.going:.0%} above its second; else a "
    "plateau",
)


def grew(trend: Trend) -> np.ndarray:
    """Draws of whether a signal grew, shape (draws,)."""
    return trend.change() > BORDERS.noise_of_growth * trend.noise_sd


def going(trend: Trend, span: float) -> np.ndarray:
    """Draws of whether a signal went on growing over its second half, shape (draws,)."""
    middle = 0.5 * (trend.step[0] + trend.step[-1])
    return goes_on(trend.change(first=middle), span)


def going_along(trend: Trend, span: float) -> np.ndarray:
    """Draws of whether a signal rises about each of its rows, shape (draws, n).

    The change over a third of the log about the row, or what of it lies in the log, is held against its part of
    `BORDERS.going`.
    """
    step = trend.step
    reach = (step[-1] - step[0]) / 6.0
    first, last = np.maximum(step - reach, step[0]), np.minimum(step + reach, step[-1])
    part = (last - first) / max(0.5 * (step[-1] - step[0]), 1e-12)
    return trend.at(last) - trend.at(first) > BORDERS.going * span * part


def still_along(trend: Trend, span: float) -> np.ndarray:
    """Draws of whether a signal ends where it is at each of its rows, shape (draws, n)."""
    moved = np.abs(trend.end[:, None] - trend.draws)
    return moved < max(BORDERS.noise_of_growth * trend.noise_sd, BORDERS.steady * span)


def goes_on(late_gain: np.ndarray | float, span: float = 1.0) -> np.ndarray:
    """Whether a gain of the second half is one of a run that is going on.

    Args:
        late_gain: Any shape.
        span: Range of the signal.
    """
    return np.asarray(late_gain) > BORDERS.going * span


def learned(reward: np.ndarray, start: float) -> bool:
    """Whether a true reward without any event is a healthy run's, and no plateau.

    Args:
        reward: Deserved reward as shares of what is attainable, shape (T,).
        start: The same before the run could lose it.
    """
    quarter = len(reward) // 4
    late = reward[-quarter:].mean() - reward[quarter : 2 * quarter].mean()
    return bool(reward[-1] > BORDERS.solved_truth or (reward[-1] - start > BORDERS.learned and goes_on(late)))
