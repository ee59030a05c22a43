"""Conditions on single rows of a log, carried to the rows of its trend."""

from __future__ import annotations

import numpy as np


def near_rows(step: np.ndarray, holds: np.ndarray, trend_step: np.ndarray) -> np.ndarray:
    """Whether a condition holds in a row that belongs to each row of a trend, shape (1, n).

    Args:
        step: Steps of the rows, shape (rows,).
        holds: Whether it does, likewise.
        trend_step: Steps of the trend, shape (n,).
    """
    if len(trend_step) == 1:
        return np.array([[bool(holds.any())]])
    nearest = np.abs(step[:, None] - trend_step[None, :]).argmin(axis=1)
    return np.bincount(nearest, weights=holds.astype(float), minlength=len(trend_step))[None, :] > 0.0
