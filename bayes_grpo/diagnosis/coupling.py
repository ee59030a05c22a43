"""Held-out beside train reward: what of a rise carries over, and what turned over."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import Trend

TURNOVER_STEPS = 40
"""Steps at which both trends are asked."""


def coupling(train: Trend, held: Trend, first: float, last: float) -> np.ndarray:
    """Draws of the held-out reward's change over the train reward's, bounded, shape (draws,)."""
    rise, most = train.change(first, last), THRESHOLDS.coupling_most
    return np.clip(held.change(first, last) / np.where(np.abs(rise) > 1e-12, rise, 1e-12), -most, most)


def turnover(train: Trend, held: Trend, first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the held-out reward's fall from its best, and of that best, shape (draws,) each.

    The fall is 0 where the train reward did not go on rising meanwhile.
    """
    steps = np.linspace(first, last, TURNOVER_STEPS)
    path, gold = train.at(steps), held.at(steps)
    best, rows = gold.argmax(axis=1), np.arange(len(gold))
    went_on = path[:, -1] > path[rows, best]
    return np.where(went_on, gold[rows, best] - gold[:, -1], 0.0), gold[rows, best]
