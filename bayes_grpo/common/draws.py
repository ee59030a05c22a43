"""A few of many draws."""

from __future__ import annotations

import numpy as np


def spread(total: int, size: int, *, repeat: bool = False) -> np.ndarray:
    """Indices of evenly spread draws, the first and the last among them.

    Args:
        total: Draws that there are.
        size: Draws that are wanted, at least 1.
        repeat: Whether some come more than once where fewer than ``size`` are there; all of them come once otherwise.

    Returns:
        Indices in increasing order, shape (size,), or (total,) where fewer are there.
    """
    return np.linspace(0, total - 1, size if repeat else min(size, total)).astype(int)
