"""Scores of predictive draws against what came: CRPS, log score, coverage, probability integral transform."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import LEVEL

_FAR = 1e-3
"""Share of a kernel's weight with a heavy tail, in the log score."""


def crps(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of draws, in the unit of ``y``; smaller is better.

    E|X − y| − E|X − X'|/2 with the second term from the sorted draws and without its bias
    (Gneiting and Raftery 2007, https://doi.org/10.1198/016214506000001437; Zamo and Naveau 2018,
    https://doi.org/10.1007/s11004-017-9709-7).

    Args:
        draws: Predictive draws, shape (m, h).
        y: What was observed, shape (h,).

    Returns:
        Shape (h,).
    """
    x = np.sort(np.asarray(draws, float), axis=0)
    m = len(x)
    spread = (2.0 * np.arange(1, m + 1) - m - 1.0) @ x / (m * (m - 1.0))
    return np.mean(np.abs(x - y), axis=0) - spread


def log_score(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log density of ``y`` under a normal kernel estimate of the draws; larger is better.

    The bandwidth is Silverman's rule, 0.9 min(sd, IQR/1.34) m^(−1/5)
    (Silverman 1986, https://doi.org/10.1201/9781315140919). A share `_FAR` of every kernel is Cauchy's: no number of
    draws tells how improbable a row out of their reach is, and a score of −10¹⁸ would drown all others.

    Args:
        draws: Predictive draws, shape (m, h).
        y: What was observed, shape (h,).

    Returns:
        Shape (h,).
    """
    x = np.asarray(draws, float)
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    spread = np.minimum(x.std(axis=0), (high - low) / 1.34)
    width = np.maximum(0.9 * spread * len(x) ** -0.2, 1e-12 * np.maximum(np.abs(y), 1.0))
    away = ((y - x) / width) ** 2
    near = -0.5 * away - 0.5 * np.log(2.0 * np.pi) + np.log1p(-_FAR)
    terms = np.logaddexp(near, np.log(_FAR) - np.log(np.pi) - np.log1p(away))
    top = terms.max(axis=0)
    return top + np.log(np.mean(np.exp(terms - top), axis=0)) - np.log(width)


def covered(draws: np.ndarray, y: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """Whether ``y`` lies inside the equal-tailed interval of the draws, shape (h,)."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return (y >= low) & (y <= high)


def pit(draws: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Probability integral transform: share of draws below ``y``, ties and the gap split at random, shape (h,).

    Uniform where the forecast is calibrated (Gneiting, Balabdaoui and Raftery 2007,
    https://doi.org/10.1111/j.1467-9868.2007.00587.x).
    """
    x = np.asarray(draws, float)
    below, equal = np.sum(x < y, axis=0), np.sum(x == y, axis=0)
    return (below + rng.uniform(size=len(y)) * (equal + 1)) / (len(x) + 1)
