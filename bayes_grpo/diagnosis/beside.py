"""Which failures are under way, each alone or beside another, and which of them sound an alarm.

The layer's classes exclude one another: the failure that leads takes the probability. Another may be under way beside
it, and a collapse that takes the spread of every group along looks like two failures and is one:

    P(m under way) = P(m leads) + P(another leads) · σ(intercept + slope · log odds of m against no failure)

Both numbers are learned from runs of which every failure is known (`laboratory/learners/diagnosis.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.classes import MODES

LIMIT = 30.0
"""Largest log odds of a failure against none."""


class Beside(NamedTuple):
    """How much of its own log odds a failure keeps beside one that leads."""

    intercept: float
    slope: float


def under_way(leads: Mapping[str, float], beside: Beside) -> dict[str, float]:
    """Mode → probability that it is under way, alone or beside another.

    Args:
        leads: Class → probability; sums to 1.
        beside: Learned numbers.
    """
    p = np.array([leads[mode] for mode in MODES])
    odds = log_odds(leads)
    given = 1.0 / (1.0 + np.exp(-(beside.intercept + beside.slope * odds)))
    return dict(zip(MODES, (p + (p.sum() - p) * given).tolist(), strict=True))


def log_odds(leads: Mapping[str, float]) -> np.ndarray:
    """Log odds of each mode against no failure, within ±`LIMIT`, shape (modes,)."""
    none = max(leads["healthy"] + leads["plateaued"], 1e-300)
    p = np.array([max(leads[mode], 1e-300) for mode in MODES])
    return np.clip(np.log(p) - np.log(none), -LIMIT, LIMIT)


class Standing:
    """What follows from the probabilities of the answers; base of results that hold them.

    Attributes:
        probability: Answer → probability.
        own: Mode → probability that it is under way, alone or beside another.
    """

    probability: Mapping[str, float]
    own: Mapping[str, float]

    @property
    def failing(self) -> float:
        """Probability that something fails: the failures' together, no less than that of any that is under way."""
        together = sum(self.probability.get(mode, 0.0) for mode in MODES)
        return min(max(together, *(self.own.get(mode, 0.0) for mode in MODES)), 1.0)

    def alarming(self, limit: float) -> tuple[str, ...]:
        """Failures that sound an alarm: those under way with a probability of at least a limit.

        Where none is, though the failures together reach it, the one that leads: something fails, and it is the best
        guess what.
        """
        found = tuple(mode for mode in MODES if self.own[mode] >= limit)
        if not found and self.failing >= limit:
            return (max(MODES, key=lambda mode: self.probability[mode]),)
        return found
