"""How many completions a row is the mean of, by the steps in which a logged share of successes moves."""

from __future__ import annotations

import numpy as np

MOST = 4096
"""More completions than this leave no steps that a logged number shows."""

DISTINCT = 8
"""Different values that it takes to tell a step from an accident."""

BY_ACCIDENT = 0.1
"""Share of arbitrary numbers that rounding may let pass for multiples of a step."""


def completions_of(y: np.ndarray) -> int | None:
    """Smallest N of which all rows are multiples of 1/N, as means of N rewards of 0 or 1 are.

    Args:
        y: Logged shares, shape (n,), all finite; rounded to any number of decimals.

    Returns:
        N; None where rounding hides the steps, or there are too few different values.
    """
    values = np.unique(y)
    if len(values) < DISTINCT:
        return None
    values = values[np.linspace(0, len(values) - 1, min(len(values), 256)).astype(int)]
    rounding = 0.5 * 10.0 ** -_decimals(values)
    most = int(min(MOST, BY_ACCIDENT / (2.0 * rounding)))
    sizes = np.arange(2.0, most + 1.0)
    off = np.abs(sizes[:, None] * values - np.round(sizes[:, None] * values)).max(axis=1)
    fits = np.flatnonzero(off <= 1.01 * sizes * rounding)
    return int(sizes[fits[0]]) if len(fits) else None


def _decimals(values: np.ndarray) -> int:
    """Decimals to which values were rounded; 7, the digits of single precision, where they show no rounding."""
    return next((d for d in range(2, 7) if np.all(np.abs(values - np.round(values, d)) < 1e-9)), 7)
