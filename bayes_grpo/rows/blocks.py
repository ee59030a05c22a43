"""Means over blocks of neighbouring rows: how every room shortens what is too long for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Blocks(NamedTuple):
    """Blocks of neighbouring rows, of nearly equal size.

    Attributes:
        start: Index of the first row of each block, shape (b,).
        size: Rows of each block, shape (b,), floats.
    """

    start: np.ndarray
    size: np.ndarray

    @property
    def last(self) -> np.ndarray:
        """Index of the last row of each block, shape (b,)."""
        return self.start + self.size.astype(int) - 1

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Means over the blocks of values of shape (n,), shape (b,)."""
        return np.add.reduceat(values, self.start) / self.size


def row_blocks(n: int, limit: int) -> Blocks:
    """At most ``limit`` blocks of ``n`` rows; a row a block where there are no more rows than that."""
    edges = np.unique(np.linspace(0, n, min(n, limit) + 1).astype(int))
    return Blocks(edges[:-1], np.diff(edges).astype(float))
