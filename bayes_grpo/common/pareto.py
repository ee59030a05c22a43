"""Pareto-smoothed importance weights (Vehtari et al. 2024, https://jmlr.org/papers/v25/19-556.html).

ArviZ computes the same, to which it is compared in the tests, but takes seconds to import.
"""

from __future__ import annotations

import math

import numpy as np


def smoothed_weights(log_weight: np.ndarray, efficiency: float) -> np.ndarray:
    """Weights whose largest ones are replaced by the quantiles of a generalised Pareto distribution.

    Args:
        log_weight: Logarithms of the weights up to a constant, shape (n,).
        efficiency: Effective over actual number of the draws that are weighted.

    Returns:
        Normalised weights, shape (n,).
    """
    n = len(log_weight)
    size = 3.0 * math.sqrt(n / efficiency) if n * efficiency > 225 else n / 5.0
    size = max(5, min(int(size), n // 2))
    order = np.argsort(log_weight)
    weight = np.exp(log_weight - log_weight[order[-1]])
    tail = order[n - size :]
    cutoff = weight[order[n - size - 1]]
    shape, scale = generalised_pareto(weight[tail] - cutoff)
    if math.isfinite(shape) and scale > 0:
        left = np.log1p(-np.arange(0.5, size) / size)
        excess = -left if shape == 0 else np.expm1(-shape * left) / shape
        weight[tail] = np.minimum(cutoff + scale * excess, weight[tail].max())
    return weight / weight.sum()


def generalised_pareto(excess: np.ndarray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution, the shape with a weakly informative prior about 1/2.

    Zhang and Stephens 2009, https://doi.org/10.1198/tech.2009.08017.

    Args:
        excess: Values above the cutoff in rising order, shape (n,).

    Returns:
        Shape and scale; NaN where the values are far from such a distribution.
    """
    n = len(excess)
    quartile = excess[int(n / 4 + 0.5) - 1]
    if quartile <= excess[0]:
        return math.nan, math.nan
    size = 30 + int(math.sqrt(n))
    b = (1.0 - np.sqrt(size / (np.arange(1, size + 1) - 0.5))) / (3.0 * quartile) + 1.0 / excess[-1]
    shapes = np.log1p(-b[:, None] * excess).mean(axis=1)
    score = n * (np.log(-b / shapes) - shapes - 1.0)
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    weight = np.where(weight >= 10 * np.finfo(float).eps, weight, 0.0)
    middle = float(np.sum(b * weight) / weight.sum())
    shape = float(np.log1p(-middle * excess).mean())
    if math.isnan(shape):
        return math.nan, math.nan
    return (n * shape + 10.0 * 0.5) / (n + 10.0), -shape / middle
