"""A signal's end over its start."""

from __future__ import annotations

import numpy as np

from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.trend import Trend


def factor(log_trend: Trend) -> np.ndarray:
    """Draws of a signal's end over its start, from the trend of its logarithm, shape (draws,)."""
    return np.exp(np.clip(log_trend.change(), -BORDERS.most_e_folds, BORDERS.most_e_folds))
