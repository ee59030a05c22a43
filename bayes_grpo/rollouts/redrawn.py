"""Sums over clusters drawn anew: the Bayesian bootstrap, in pieces, so that memory does not grow with the clusters.

Each cluster (a prompt) gets an exponential weight (Rubin 1981). A mean has (n − 1)/(n + 1) of its variance under such
weights of n clusters, and of few clusters the spread itself is hardly known: draws are spread out by as much.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, t

from bayes_grpo.common.intervals import LEVEL

_PIECE = 2048


def redrawn(columns: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Weighted sums of columns, shape (draws, k).

    Args:
        columns: What each cluster adds, shape (n, k).
        draws: Draws of the weights.
        seed: Seed.
    """
    rng = np.random.default_rng(seed)
    out = np.zeros((draws, columns.shape[1]))
    for start in range(0, len(columns), _PIECE):
        some = columns[start : start + _PIECE]
        out += rng.standard_exponential((draws, len(some))) @ some
    return out


def spread_out(drawn: np.ndarray, centre: np.ndarray | float, clusters: int) -> np.ndarray:
    """Draws about an estimate as far as so few clusters allow.

    Args:
        drawn: Draws, the first axis theirs.
        centre: The estimate.
        clusters: Clusters that it rests on.
    """
    if clusters < 2:
        return drawn
    tail = 0.5 + LEVEL / 2.0
    wider = float(t.ppf(tail, clusters - 1) / norm.ppf(tail) * np.sqrt((clusters + 1.0) / (clusters - 1.0)))
    return centre + wider * (drawn - centre)
