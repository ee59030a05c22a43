"""Rows without any spread."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.trend import TREND_DRAWS


def dead_share(dead: np.ndarray) -> np.ndarray:
    """Draws of the share of rows without spread, given which of them had none, shape (draws,); Jeffreys' prior."""
    count = int(dead.sum())
    return np.random.default_rng(0).beta(0.5 + count, 0.5 + len(dead) - count, TREND_DRAWS)
