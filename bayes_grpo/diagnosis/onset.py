"""When a failure began: what modes read off the draws of a course.

Each draw of a course is one possible history; the step at which it begins to fail is read off every one of them.
"""

from __future__ import annotations

import numpy as np

POINTS = 120
"""Steps at which a course is asked."""


def steps_between(first: float, last: float) -> np.ndarray:
    """Evenly spaced steps at which to ask a course, shape (`POINTS`,)."""
    return np.linspace(first, last, POINTS)


def last_true(condition: np.ndarray) -> np.ndarray:
    """Index of the last true value of each row, shape (rows,); 0 without any.

    Args:
        condition: Shape (rows, n).
    """
    n = condition.shape[1]
    return np.where(condition.any(axis=1), n - 1 - condition[:, ::-1].argmax(axis=1), 0)
