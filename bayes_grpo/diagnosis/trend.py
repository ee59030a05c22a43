"""Latent signals of a run over its steps, in draws: what every event is a condition on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_grpo.diagnosis.thresholds import THRESHOLDS

TREND_DRAWS = 200
"""Draws of a trend."""


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

    @property
    def end(self) -> np.ndarray:
        """Draws of the mean over the last part, shape (draws,)."""
        return end_of(self.draws)

    @property
    def best(self) -> np.ndarray:
        """Draws of the highest value, shape (draws,); of the first rows too, which a robust trend may pass over."""
        return np.maximum(self.draws.max(axis=1), self.raw[: THRESHOLDS.first_rows].mean())

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Draws at other steps, linear between rows and constant beyond them, shape (draws, steps)."""
        steps = np.atleast_1d(np.asarray(steps, dtype=float))
        if len(self.step) == 1:
            return np.repeat(self.draws, len(steps), axis=1)
        right = np.clip(np.searchsorted(self.step, steps), 1, len(self.step) - 1)
        left = right - 1
        share = np.clip((steps - self.step[left]) / (self.step[right] - self.step[left]), 0.0, 1.0)
        return self.draws[:, left] * (1.0 - share) + self.draws[:, right] * share

    def change(self, first: float | None = None, last: float | None = None) -> np.ndarray:
        """Draws of the change between two steps, by default from the first row to the last, shape (draws,)."""
        first = self.step[0] if first is None else first
        last = self.step[-1] if last is None else last
        ends = self.at(np.array([first, last]))
        return ends[:, 1] - ends[:, 0]


def end_of(path: np.ndarray) -> np.ndarray:
    """Means over the last part of paths, shape (draws,).

    Args:
        path: Shape (draws, n).
    """
    return path[:, -max(1, path.shape[1] // THRESHOLDS.end_part) :].mean(axis=1)


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


@dataclass(frozen=True, eq=False, kw_only=True)
class LatentSignals:
    """The trends of a run.

    Attributes:
        reward: Train reward, or held-out reward where no train reward is logged.
        held_out: Gold or held-out reward beside a train reward, or None.
        signals: Canonical name → trend; of the logarithm of gradient norm, length and entropy.
        low: Lowest reward if known, else NaN.
        high: Highest reward if known, else NaN; known together with ``low`` or not at all.
    """

    reward: Trend
    held_out: Trend | None
    signals: Mapping[str, Trend]
    low: float
    high: float

    @property
    def has_range(self) -> bool:
        """Whether lowest and highest reward are known."""
        return bool(np.isfinite(self.low))

    @property
    def span(self) -> float:
        """Range of the reward: the known one, or what the log shows of it."""
        if self.has_range:
            return self.high - self.low
        return span_of(self.reward.value)

    def share(self, reward: np.ndarray | float) -> np.ndarray:
        """Rewards as shares of the range; NaN where it is not known."""
        return (np.asarray(reward) - self.low) / (self.high - self.low)
