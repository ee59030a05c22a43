"""The learning rate's end: from there on no policy moves, whatever a law of the reward expects."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.thresholds import THRESHOLDS


def rate_spent_at(step: np.ndarray, learning_rate: np.ndarray | None) -> float | None:
    """Step from which a learning rate is spent; None where it is not, or was not logged.

    A rate that warms up is below its peak too, so only what comes after the peak counts.

    Args:
        step: Steps of the rows, shape (n,).
        learning_rate: The rate at them, shape (n,), NaN where it was not logged; None where it never was.
    """
    if learning_rate is None:
        return None
    kept = np.flatnonzero(np.isfinite(learning_rate))
    rate = learning_rate[kept]
    if len(kept) < THRESHOLDS.first_rows or not rate.max() > 0.0:
        return None
    low = rate <= THRESHOLDS.rate_spent * rate.max()
    if not low[-1]:
        return None
    return float(step[kept[int(np.flatnonzero(~low)[-1]) + 1]])
