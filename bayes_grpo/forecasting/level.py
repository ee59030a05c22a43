"""The last-value forecaster: the reward stays at the mean of its last rows.

It is the baseline late in a run, and hard to beat on flat logs. Its spread comes from its own past errors on the same
log: every row minus the mean of the `LAST` rows before it.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from bayes_grpo.forecasting.events import RewardPaths
from bayes_grpo.rows.reward_range import RewardRange

LEVEL_NAME = "level"
LAST = 10
"""Number of rows in the mean."""


class Level(NamedTuple):
    """Mean of the last rows, sd of the latent reward about it, and sd of a row about the latent reward."""

    mean: float
    sd: float
    row_sd: float


def level_of(y: np.ndarray) -> Level:
    """The last-value forecast of logged rows, shape (n,) with n ≥ 2."""
    mean = float(y[-LAST:].mean())
    if len(y) > LAST:
        before = np.convolve(y, np.ones(LAST) / LAST, mode="valid")[:-1]
        errors = y[LAST:] - before
        if len(errors) < LAST:
            errors = np.concatenate([errors, y[-LAST:] - mean])
    else:
        errors = y - mean
    total = max(float(np.mean(errors**2)), 1e-24)
    # Differences of neighboring rows are noise; the rest of an error is drift of the level. The noise of the mean is a
    # lower bound of its error.
    noise = min(0.5 * float(np.mean(np.diff(y) ** 2)), total)
    known = noise / min(LAST, len(y))
    level = min(max(total - noise, known), total)
    return Level(mean, float(np.sqrt(level)), float(np.sqrt(max(total - level, 1e-24))))


def level_paths(
    level: Level, length: int, count: int, seed: int, reward: RewardRange
) -> tuple[RewardPaths, np.ndarray]:
    """Constant paths inside the range of the reward, shape (count, length), and their level, shape (count,)."""
    rng = np.random.default_rng(seed)
    quantile = NormalDist().inv_cdf  # SciPy's takes longer to import than a forecast of this kind to make
    normal = np.array([quantile((i + 0.5) / count) for i in range(count)], float)
    at = rng.permutation(level.mean + level.sd * normal)
    at = np.clip(at, reward.low, reward.high)
    latent = np.repeat(at[:, None], length, axis=1)
    rows = np.clip(latent + level.row_sd * rng.standard_normal(latent.shape), reward.low, reward.high)
    return RewardPaths(latent, latent.copy(), rows), at
