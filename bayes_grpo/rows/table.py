"""Rows of one signal of a run, as a law sees them: where each window starts and ends, and how it is weighted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Optimizer(NamedTuple):
    """Settings that the reduced model rests on.

    Attributes:
        momentum: μ or Adam's β₁.
        convention: "heavy_ball" or "ema".
        refresh: Optimizer steps between refreshes of the sampling policy.
        stated: Whether momentum and refresh were stated by log, config or user, rather than assumed.
    """

    momentum: float
    convention: str
    refresh: float
    stated: bool

    @property
    def mass(self) -> float:
        """Mass of the oscillator without lag, (1 + μ)/2, dimensionless in units of optimizer steps."""
        return 0.5 * (1.0 + self.momentum)


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows of one signal, unpadded, with what the priors may know: scale and length.

    Attributes:
        signal: "reward" or "eval_reward".
        step: Steps at which the rows end, shape (n,).
        y: Logged values, shape (n,), all finite.
        window: Steps averaged into each row, shape (n,), ≥ 0; 0 = instantaneous.
        start: Step at which the first row's window starts, t = 0 of the law.
        rate: Learning rate over the reference one, shape (n,).
        weight: Completions of each row over the typical number, shape (n,).
        reference_rate: The run's highest learning rate, to which stiffness refers; NaN if not logged.
        from_rest: Whether the log starts at the beginning of the run, where the curve is at rest.
        optimizer: Settings of the run that the reduced model rests on.
        notes: What was done to the rows that a user should know.
        entropy: Policy entropy at each row in nats, shape (n,), from the logged values before it;
            None where not logged.
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
    entropy: np.ndarray | None = None

    @property
    def centre(self) -> float:
        """Mean of the rows, reward."""
        return float(np.mean(self.y))

    @property
    def scale(self) -> float:
        """Standard deviation of the rows, reward."""
        return float(np.std(self.y))

    @property
    def is_share(self) -> bool:
        """Whether all rows lie in [0, 1], as those of a share of successes do."""
        return is_share(self.y)

    @property
    def length(self) -> float:
        """Steps from the start of the first row to the end of the last."""
        return float(self.step[-1] - self.start)

    @property
    def lag(self) -> float:
        """Mean age of the policy that a row tells of, steps.

        A row is the mean over its window, and a train reward is that of the sampling policy, which is held for
        ``refresh`` steps.
        """
        held = self.optimizer.refresh - 1.0 if self.signal == "reward" else 0.0
        return 0.5 * (float(np.median(self.window)) + held)

    def gap(self) -> np.ndarray:
        """Steps between the end of the row before and the start of each row's window, shape (n,)."""
        before = np.concatenate([[self.start], self.step[:-1]])
        return np.maximum(self.step - self.window - before, 0.0)


def is_share(values: np.ndarray) -> bool:
    """Whether values lie in [0, 1], all of them and at least one."""
    return bool(len(values) and np.min(values) >= 0.0 and np.max(values) <= 1.0)
