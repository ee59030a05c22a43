"""Rows of one signal of a run, as a regime sees them: where each window starts and ends, and how it is weighted."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np


class Optimizer(NamedTuple):
    """Optimizer settings of the reduced model.

    Attributes:
        momentum: μ or Adam's β₁.
        convention: "heavy_ball" or "ema".
        refresh: Optimizer steps between refreshes of the sampling policy.
        given: Whether the log, the config or the user sets momentum and refresh; False where assumed.
    """

    momentum: float
    convention: str
    refresh: float
    given: bool

    @property
    def mass(self) -> float:
        """Mass of the oscillator without lag, (1 + μ)/2, dimensionless in units of optimizer steps."""
        return 0.5 * (1.0 + self.momentum)


CHANCE = 2.0
"""Standard errors within which a log scatters as predicted."""


class NoiseLevel(NamedTuple):
    """Measurement noise of a typical row, predicted from what is logged with its mean; by `row_noise`.

    Attributes:
        sd: Predicted standard deviation, reward.
        spread: Standard deviation of the logarithm of true over predicted sd on logs that were not learned from,
            e-folds.
        evidence: What was logged, in words.
        design: Variance of the row over that of as many independent completions.
        departure: Logarithm of the scatter of the rows about any smooth course over the predicted sd.
        error: Standard error of this, e-folds.
    """

    sd: float
    spread: float
    evidence: str
    design: float
    departure: float
    error: float

    @property
    def expected_departure(self) -> float:
        """Departure that chance and the prediction's own error explain, e-folds, either way."""
        return CHANCE * math.hypot(self.spread, self.error)

    @property
    def prior_spread(self) -> float:
        """Spread of the prior, e-folds: as calibrated, and wider by what the log departs beyond chance."""
        beyond = max(self.departure**2 - self.expected_departure**2, 0.0)
        return min(math.sqrt(self.spread**2 + beyond), 1.0)


class ExpectedNoise(NamedTuple):
    """Standard deviation of a row before the rows themselves are looked at, in the unit of the reward.

    Rows may well be noisier ``at_least`` where only the spread within groups is known.
    """

    sd: float
    at_least: bool


@dataclass(frozen=True, eq=False)
class Series:
    """Rows of one signal, unpadded, with what the priors may know: scale and length.

    Attributes:
        signal: "reward" or "eval_reward".
        step: Steps at which the rows end, shape (n,).
        y: Logged values, shape (n,), all finite.
        window: Steps averaged into each row, shape (n,), ≥ 0; 0 = instantaneous.
        start: Step at which the first row's window starts, t = 0 of the regime.
        rate: Learning rate over the reference one, shape (n,).
        weight: Completions of each row over the typical number, shape (n,); of an outlier as few as make it an ordinary
            row.
        reference_rate: The run's highest learning rate, to which stiffness refers; NaN if not logged.
        from_rest: Whether the log starts at the beginning of the run, where the curve is at rest.
        optimizer: Settings of the run that the reduced model rests on.
        notes: What was done to the rows that a user should know.
        noise: Measurement variance of a completion at each row over that at a typical one, shape (n,); None where the
            log says nothing of it.
        level: Measurement noise of a typical row as the log says it, None likewise.
        expected: Standard deviation that a row is expected to have before any is looked at, None likewise.
    """

    signal: str
    step: np.ndarray
    y: np.ndarray
    window: np.ndarray
    start: float
    rate: np.ndarray
    weight: np.ndarray
    reference_rate: float
    from_rest: bool
    optimizer: Optimizer
    notes: tuple[str, ...] = ()
    noise: np.ndarray | None = None
    level: NoiseLevel | None = None
    expected: ExpectedNoise | None = None

    @property
    def precision(self) -> np.ndarray:
        """Measurement variance of the typical row over that of each row, shape (n,)."""
        return self.weight if self.noise is None else self.weight / self.noise

    def evenly_noisy(self) -> Series:
        """The same rows as if completions scattered alike in all of them.

        A forecast takes them so: where noise falls or grows with the level, the rows that count for less are often the
        last ones.
        """
        return replace(self, noise=None)

    @property
    def centre(self) -> float:
        """Mean of the rows, reward."""
        return float(np.mean(self.y))

    @property
    def scale(self) -> float:
        """Standard deviation of the rows, reward."""
        return float(np.std(self.y))

    @property
    def length(self) -> float:
        """Steps from the start of the first row to the end of the last."""
        return float(self.step[-1] - self.start)

    @property
    def lag(self) -> float:
        """Mean age of the policy that a row tells of, steps.

        A row is the mean over its window, and a train reward is that of the sampling policy, which stays for
        ``refresh`` steps.
        """
        stale = self.optimizer.refresh - 1.0 if self.signal == "reward" else 0.0
        return 0.5 * (float(np.median(self.window)) + stale)

    def extended(self, step: np.ndarray, window: np.ndarray, rate: np.ndarray, weight: np.ndarray) -> Series:
        """The rows, and later ones without a value at increasing steps; columns of shape (h,)."""
        new = {"step": step, "y": np.full(len(step), np.nan), "window": window, "rate": rate, "weight": weight}
        if self.noise is not None:
            new["noise"] = np.full(len(step), self.noise[-1])
        return replace(self, **{k: np.concatenate([getattr(self, k), v]) for k, v in new.items()})

    def before(self, row: int) -> Series:
        """The rows before the one of an index."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v[:row] for k, v in columns.items() if isinstance(v, np.ndarray)})

    def gap(self) -> np.ndarray:
        """Steps between the end of the row before and the start of each row's window, shape (n,)."""
        before = np.concatenate([[self.start], self.step[:-1]])
        return np.maximum(self.step - self.window - before, 0.0)


def is_share(values: np.ndarray) -> bool:
    """True where there are values and all lie in [0, 1], as those of a share of successes do."""
    return bool(len(values) and np.min(values) >= 0.0 and np.max(values) <= 1.0)


class RewardLevels(NamedTuple):
    """First, last and best level of a reward, by its path, and the step of the best one's last row."""

    first: float
    last: float
    best: float
    best_step: float


class Blocks(NamedTuple):
    """Blocks of neighboring rows, of nearly equal size: index of the first row, and number of rows, shape (b,) each."""

    start: np.ndarray
    size: np.ndarray

    @property
    def last(self) -> np.ndarray:
        """Index of the last row of each block, shape (b,)."""
        return self.start + self.size.astype(int) - 1

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Means over the blocks of values of shape (n,), shape (b,)."""
        return np.add.reduceat(values, self.start) / self.size


def row_blocks(n: int, limit: int) -> Blocks:
    """At most ``limit`` blocks of ``n`` rows; a row a block where there are no more rows than that."""
    edges = np.unique(np.linspace(0, n, min(n, limit) + 1).astype(int))
    return Blocks(edges[:-1], np.diff(edges).astype(float))


def stretches(holds: np.ndarray, least: int = 1) -> list[tuple[int, int]]:
    """First and last place of every stretch in which a condition of shape (n,) holds ``least`` times at least."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(int)))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2) if b - a >= least]
