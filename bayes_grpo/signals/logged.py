"""The logged values of one signal, as rows with a finite value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Logged:
    """The values of one signal.

    Attributes:
        step: Steps of the rows that have a value, shape (n,).
        value: The values, shape (n,).
    """

    step: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, step: np.ndarray, value: np.ndarray) -> Logged:
        """The finite values of a column, shape (rows,) both."""
        finite = np.isfinite(value)
        return cls(np.asarray(step, float)[finite], np.asarray(value, float)[finite])

    def until(self, step: float) -> Logged:
        """The rows up to a step."""
        n = int(np.searchsorted(self.step, step, side="right"))
        return self if n == len(self.step) else Logged(self.step[:n], self.value[:n])

    def between(self, first: float, last: float) -> np.ndarray:
        """The values from one step to another."""
        return self.value[(self.step >= first) & (self.step <= last)]

    def late(self, share: float) -> np.ndarray:
        """The values of the last part of the rows, at least one where there are any."""
        return self.value[-max(1, round(share * self.rows)) :]

    @property
    def rows(self) -> int:
        """Number of values."""
        return len(self.value)

    @property
    def constant(self) -> bool:
        """True if every row has the same value."""
        return self.rows > 0 and bool(np.ptp(self.value) == 0.0)


NOTHING = Logged(np.empty(0), np.empty(0))
"""A signal without rows."""
