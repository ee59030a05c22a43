"""Where a reward began, where it is, and its best, as means of a few rows: numbers for tables of many runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_SHARE = 0.1
"""Share of the rows in each mean."""
_FEWEST = 3
"""Rows in a mean at least, where the log has as many."""


class RewardLevels(NamedTuple):
    """Levels of a reward: means of a tenth of the rows each, or levels of its path (`SignalPath.shown_levels`).

    Attributes:
        first: The first level, reward; NaN without rows.
        last: The last one.
        best: The best one, over as many rows that follow each other.
        best_step: Step of the last of these; NaN without rows.
    """

    first: float
    last: float
    best: float
    best_step: float


def reward_levels(step: np.ndarray, reward: np.ndarray) -> RewardLevels:
    """First, last and best level of a reward.

    Args:
        step: Optimizer steps of the rows, shape (n,), increasing.
        reward: Rewards, shape (n,); those that are no numbers are left out.
    """
    known = np.isfinite(reward)
    steps = step[known]
    values = reward[known]
    n = len(values)
    if not n:
        return RewardLevels(np.nan, np.nan, np.nan, np.nan)
    width = min(max(_FEWEST, round(_SHARE * n)), n)
    means = np.convolve(values, np.full(width, 1.0 / width), mode="valid")
    top = int(np.argmax(means))
    return RewardLevels(float(means[0]), float(means[-1]), float(means[top]), float(steps[top + width - 1]))
