"""Weights of predictive distributions by stacking, shrunk towards equal weights where there is little to learn from.

Stacking maximises the log score of the mixture (Yao et al. 2018, https://doi.org/10.1214/17-BA1091). On a handful of
forecast origins it would put everything on one law by chance.
"""

from __future__ import annotations

import numpy as np


def stacking_weights(log_density: np.ndarray, steps: int = 2000) -> np.ndarray:
    """Weights that maximise the mean log density of the mixture, by expectation maximisation.

    Args:
        log_density: Log predictive density of every row under every law, shape (rows, laws).
        steps: Iterations.

    Returns:
        Shape (laws,), summing to 1.
    """
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    weight = np.full(density.shape[1], 1.0 / density.shape[1])
    for _ in range(steps):
        share = density * weight
        new = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.max(np.abs(new - weight)) < 1e-9:
            break
        weight = new
    return weight / weight.sum()


def shrunk_weights(weight: np.ndarray, points: int) -> np.ndarray:
    """Weights drawn towards equal ones, as if every law had been right once more.

    With b independent points and K laws the result is (b · weight + 1) / (b + K): the mean of a Dirichlet posterior
    that starts from one count a law.

    Args:
        weight: Weights, shape (laws,).
        points: Effective number of independent points.

    Returns:
        Shape (laws,), summing to 1.
    """
    return (points * weight + 1.0) / (points + len(weight))
