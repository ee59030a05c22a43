"""The one interval of this package: 90%, equal-tailed, named wherever it is printed; and probabilities in words."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

LEVEL = 0.90
"""Probability of every credible interval that is printed, drawn or returned."""
QUANTILES = ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)
"""Shares of draws below the low end, the median and the high end."""
SURELY_BETTER = 0.95
"""Probability from which one of two counts as better."""


class Interval(NamedTuple):
    """Median and equal-tailed interval of some draws, and the probability inside."""

    median: float
    low: float
    high: float
    level: float


def band(draws: np.ndarray) -> np.ndarray:
    """Low end, median and high end over the first axis of draws, shape (3, ...)."""
    return np.quantile(draws, QUANTILES, axis=0)


def interval(draws: Any) -> Interval:
    """Median and equal-tailed interval of draws of any shape; draws that are not finite do not count."""
    flat = np.asarray(draws, dtype=float).ravel()
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return Interval(float("nan"), float("nan"), float("nan"), LEVEL)
    low, median, high = band(flat)
    return Interval(float(median), float(low), float(high), LEVEL)


def probability_text(probability: float) -> str:
    """A probability from a few thousand draws: never 0 or 1."""
    if probability > 0.99:
        return "> 0.99"
    return "< 0.01" if probability < 0.01 else f"{probability:.2f}"


def better_of(p_better: float) -> str:
    """One of "B is better", "A is better" and "cannot tell", by the probability that B is better."""
    if p_better >= SURELY_BETTER:
        return "B is better"
    return "A is better" if p_better <= 1.0 - SURELY_BETTER else "cannot tell"


def percent(probability: float) -> str:
    """A probability as a percentage in a sentence: never 0% or 100%."""
    if probability > 0.99:
        return ">99%"
    return "<1%" if probability < 0.01 else f"{probability:.0%}"


def rounded(value: float) -> float:
    """A number, 0 where it has the size of a rounding error."""
    return 0.0 if abs(value) < 1e-8 else value


def span_text(draws: Any, form: str = ".2g", level: bool = True) -> str:
    """Median and interval of draws in words, or the median alone where all three print alike.

    A number of rounding's size is 0. A clause names the interval's level once.
    """
    found = draws if isinstance(draws, Interval) else interval(draws)
    median, low, high = map(rounded, found[:3])
    middle, *ends = (f"{x:{form}}" for x in (median, low, high))
    if ends == [middle, middle]:
        return middle
    text = f"{middle} [{', '.join(ends)}]"
    return f"{text} ({found.level:.0%})" if level else text


def digits(value: float | None, form: str = ".4g") -> str:
    """A number in few digits; "" for one that is not known."""
    if value is None or math.isnan(value):
        return ""
    if not math.isfinite(value):
        return "never" if value > 0 else "-∞"
    shown = format(value + 0.0, form)  # -0.0 is 0
    return f"{value:,.0f}" if "e+" in shown and abs(value) < 1e7 else shown


def from_to(start: float, end: float) -> str:
    """Two levels in two digits each, or in as many as tell them apart."""
    told = [(digits(start, f".{places}g"), digits(end, f".{places}g")) for places in range(2, 6)]
    first, last = next((each for each in told if each[0] != each[1]), told[0])
    return f"from {first} to {last}"
