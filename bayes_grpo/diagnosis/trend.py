"""The latent signal beneath a logged one, in draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.thresholds import THRESHOLDS

TREND_DRAWS = 200
"""Draws of a trend."""
TREND_ROWS = 48
"""Longer signals are averaged in blocks of rows down to this number."""

BEFORE_ROWS = 5
"""Rows whose mean is the level from which a change is counted."""


@dataclass(frozen=True, eq=False)
class Trend:
    """Posterior of the latent signal beneath a logged one.

    Attributes:
        step: Steps of the (averaged) rows, shape (n,).
        value: The rows themselves, shape (n,).
        draws: Draws of the trend, shape (draws, n).
        noise_sd: Posterior mean of a single logged row's noise sd.
        rows: Number of logged rows.
        raw_step: Steps of the logged rows, shape (rows,).
        raw: Logged rows, shape (rows,).
    """

    step: np.ndarray
    value: np.ndarray
    draws: np.ndarray
    noise_sd: float
    rows: int
    raw_step: np.ndarray
    raw: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean, shape (n,)."""
        return self.draws.mean(axis=0)

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Draws at other steps, linear between rows and constant beyond them, shape (draws, steps)."""
        steps = np.atleast_1d(np.asarray(steps, dtype=float))
        if len(self.step) == 1:
            return np.repeat(self.draws, len(steps), axis=1)
        right = np.clip(np.searchsorted(self.step, steps), 1, len(self.step) - 1)
        left = right - 1
        share = np.clip((steps - self.step[left]) / (self.step[right] - self.step[left]), 0.0, 1.0)
        return self.draws[:, left] * (1.0 - share) + self.draws[:, right] * share

    def over(self, first: float, last: float) -> np.ndarray:
        """Draws of the mean between two steps, shape (draws,)."""
        return self.at(np.linspace(first, last, 9)).mean(axis=1)

    def change(self, first: float | None = None, last: float | None = None) -> np.ndarray:
        """Draws of the change between two steps, by default from the first row to the last, shape (draws,)."""
        first = self.step[0] if first is None else first
        last = self.step[-1] if last is None else last
        ends = self.at(np.array([first, last]))
        return ends[:, 1] - ends[:, 0]

    def change_since(self, first: float, last: float) -> np.ndarray:
        """Draws of the change from the rows up to a step, `BEFORE_ROWS` at most, to another step, shape (draws,).

        A smooth trend anticipates a jump; the rows before it do not.
        """
        before = self.raw[self.raw_step <= first][-BEFORE_ROWS:]
        if not len(before):
            return self.change(first, last)
        error = self.noise_sd / np.sqrt(len(before))
        start = before.mean() + error * np.random.default_rng(0).standard_normal(len(self.draws))
        return self.at(np.array([last]))[:, 0] - start


def stretches(holds: np.ndarray, least: int = 1) -> list[tuple[int, int]]:
    """First and last place of every stretch in which a condition holds.

    Args:
        holds: Shape (n,).
        least: Length of a stretch that counts.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(int)))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2) if b - a >= least]


def span_of(rows: np.ndarray) -> float:
    """Range of a reward by its rows alone, shape (n,)."""
    return max(float(np.ptp(rows)), 0.5 * float(np.abs(rows).max()), 1e-12)


def span_text(found: Interval, digits: str = ".2g", level: bool = True) -> str:
    """Median and interval; 0 where the trend of a constant is 0 but for rounding.

    Args:
        found: The interval.
        digits: Format of its numbers.
        level: Whether to name the interval's level; a clause names it once.
    """
    median, low, high = (0.0 if abs(x) < 1e-8 else x for x in found[:3])
    text = f"{median:{digits}} [{low:{digits}}, {high:{digits}}]"
    return f"{text} ({found.level:.0%})" if level else text


def rate_spent_at(step: np.ndarray, learning_rate: np.ndarray | None) -> float | None:
    """Step from which a learning rate is spent; None where it is not, or was not logged.

    A rate that warms up is below its peak too, so only what comes after the peak counts.

    Args:
        step: Steps of the rows, shape (n,).
        learning_rate: The rate at them, shape (n,), NaN where it was not logged; None where it never was.
    """
    if learning_rate is None:
        return None
    kept = np.flatnonzero(np.isfinite(learning_rate))
    rate = learning_rate[kept]
    if len(kept) < THRESHOLDS.first_rows or not rate.max() > 0.0:
        return None
    low = rate <= THRESHOLDS.rate_spent * rate.max()
    if not low[-1]:
        return None
    return float(step[kept[int(np.flatnonzero(~low)[-1]) + 1]])
