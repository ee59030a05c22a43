"""A signal's end over its start."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import Trend


def factor(log_trend: Trend) -> np.ndarray:
    """Draws of a signal's end over its start, from the trend of its logarithm, shape (draws,)."""
    return np.exp(np.clip(log_trend.change(), -THRESHOLDS.most_e_folds, THRESHOLDS.most_e_folds))
