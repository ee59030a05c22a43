"""Rows far from their neighbours on both sides: a broken batch, a grader that was down for a step.

Under normal noise a few of them widen the band of all rows. They are so rare and so far that there is no doubt which
rows they are: each is given the measurement variance at which it is an ordinary row, and the others are as they were.
A step, a collapse or a swing is not one: there a row agrees with the rows on one side.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bayes_grpo.rows.table import is_share

SIDE = 5
"""Rows on either side whose median a row is held against."""

OUTLIER_FEWEST = 3
"""Fewer rows than this on a side say nothing: whether the last rows are outliers is seen when others have come."""

FAR = 6.0
"""Robust standard deviations from which on a row counts. Fewer than one in 200 series of 20 rows of normal noise have
such a row, and far fewer of longer ones."""

OF_ALL = 1.5
"""Standard deviations of all rows that an outlier is away at least: rows that hardly scatter, as after a collapse, do
not make exceptions of those that do."""

OF_SHARE = 0.3
"""The same for a share of successes, in units of the reward: near 0 and 1 its noise is rare and large by itself."""

MOST = 0.05
"""Share of the rows above which they are no exception but what the noise is like."""

OUTLIER_NEAR = 15
"""Rows on either side that say how rows scatter there, where that is more than in the log as a whole."""

OUTLIER_MIN_ROWS = 20
"""Rows that it takes to know the scatter."""


def outliers(y: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """How far rows lie from their neighbours on both sides, where that is too far.

    Args:
        y: Rows, shape (n,).
        variance: Their relative measurement variance, shape (n,).

    Returns:
        Robust standard deviations of the rows that are outliers, 0 for all others, shape (n,).
    """
    n, none = len(y), np.zeros(len(y))
    if n < OUTLIER_MIN_ROWS:
        return none
    padded = np.concatenate([np.full(SIDE, np.nan), y, np.full(SIDE, np.nan)])
    windows = sliding_window_view(padded, SIDE)
    inner = slice(OUTLIER_FEWEST, n - OUTLIER_FEWEST)
    before = np.nanmedian(windows[:n][inner], axis=1)
    after = np.nanmedian(windows[SIDE + 1 : SIDE + 1 + n][inner], axis=1)
    one, other = (y[inner] - before), (y[inner] - after)
    off = np.abs(0.5 * (one + other)) / np.sqrt(variance[inner])
    around = sliding_window_view(np.pad(off, OUTLIER_NEAR, constant_values=np.nan), 2 * OUTLIER_NEAR + 1)
    scale = 1.4826 * np.maximum(np.median(off), np.nanmedian(around, axis=1))
    if not scale.min() > 0.0:
        return none
    nearer = np.where(one * other > 0.0, np.minimum(np.abs(one), np.abs(other)), 0.0)
    found = none.copy()
    found[inner] = nearer / (scale * np.sqrt(variance[inner]))
    least = max(OF_ALL * float(np.std(y)), OF_SHARE * is_share(y))
    found[inner][nearer < least] = 0.0
    found[found <= FAR] = 0.0
    return none if np.mean(found > 0.0) > MOST else found
