"""Conditions on single rows of a log, carried to the rows of its trend."""

from __future__ import annotations

import numpy as np


def always_logged(values: np.ndarray, share: float) -> bool:
    """Whether a signal has a value in nearly every row, so that a row without one has lost it.

    A signal that is logged now and then, such as one of evaluations, has not: its rows without a value come evenly.

    Args:
        values: Shape (rows,), NaN where there is none.
        share: Of the rows.
    """
    known = np.isfinite(values)
    return len(values) > 0 and float(known.mean()) >= share and bool(known[: max(1, len(known) // 2)].any())


def lost_rows(values: np.ndarray) -> np.ndarray:
    """Rows without a value after the first one with a value, shape (rows,)."""
    known = np.isfinite(values)
    return ~known & np.maximum.accumulate(known)


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
