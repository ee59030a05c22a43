"""Random numbers and draws: seeds of the parts of a computation, a few of many draws, weights of draws smoothed.

A part's seed is keyed by its name, so that leaving a regime or an origin out changes no number of the rest, and hashed
(NumPy's `SeedSequence` with a spawn key), so that no two parts of neighboring seeds share a stream of random numbers.

Weights are smoothed as by Vehtari et al. 2024 (https://jmlr.org/papers/v25/19-556.html). ArviZ does so too, and the
tests compare the two, but it takes seconds to import.
"""

from __future__ import annotations

import math
from zlib import crc32

import numpy as np
from numpy.random import SeedSequence


def spread(total: int, size: int, *, repeat: bool = False) -> np.ndarray:
    """Indices of evenly spread draws in rising order, the first and the last among them.

    Where fewer than ``size`` are there, all of them come once, or some come more than once.
    """
    return np.linspace(0, total - 1, size if repeat else min(size, total)).astype(int)


def seed_of(seed: int, *name: str | float) -> int:
    """Seed in [0, 2³²) of a part of a computation by its name: words and numbers, as ``"paths", regime.name``."""
    key = [crc32((word if isinstance(word, str) else f"number {float(word)!r}").encode()) for word in name]
    return int(SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def spawn(seed: int, n: int) -> tuple[int, ...]:
    """Seeds of n parts that have no names, such as rounds; the first of them are the same for every n."""
    return tuple(int(part.generate_state(1)[0]) for part in SeedSequence(seed).spawn(n))


def smoothed_weights(log_weight: np.ndarray, efficiency: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights whose largest ones are replaced by quantiles of a generalised Pareto distribution, and its shape k-hat.

    Of logarithms of weights up to a constant, shape (..., n), and the effective over the actual number of the draws.
    Normalised weights of that shape; and shapes (...), NaN where the tail is far from such a distribution.
    """
    n = log_weight.shape[-1]
    size = 3.0 * math.sqrt(n / efficiency) if n * efficiency > 225 else n / 5.0
    size = max(5, min(int(size), n // 2))
    order = np.argsort(log_weight, axis=-1)
    weight = np.exp(log_weight - np.take_along_axis(log_weight, order[..., -1:], -1))
    tail = order[..., n - size :]
    cutoff = np.take_along_axis(weight, order[..., n - size - 1 : n - size], -1)
    logged = np.take_along_axis(weight, tail, -1)
    shape, scale = generalised_pareto(logged - cutoff)
    left = np.log1p(-np.arange(0.5, size) / size)
    k = shape[..., None]
    fits = (np.isfinite(shape) & (scale > 0))[..., None]
    with np.errstate(all="ignore"):  # what does not fit stays as it was
        excess = np.where(k == 0, -left, np.expm1(-k * left) / k)
        smooth = np.minimum(cutoff + scale[..., None] * excess, logged[..., -1:])
    np.put_along_axis(weight, tail, np.where(fits, smooth, logged), -1)
    return weight / weight.sum(axis=-1, keepdims=True), shape


def generalised_pareto(excess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shape and scale of a generalised Pareto distribution, the shape with a weakly informative prior about 1/2.

    Zhang and Stephens 2009, https://doi.org/10.1198/tech.2009.08017. Of values above the cutoff in rising order, shape
    (..., n); NaN where they are far from such a distribution.
    """
    n = excess.shape[-1]
    quartile = excess[..., int(n / 4 + 0.5) - 1]
    size = 30 + int(math.sqrt(n))
    with np.errstate(all="ignore"):
        b = (1.0 - np.sqrt(size / (np.arange(1, size + 1) - 0.5))) / (3.0 * quartile[..., None])
        b = b + 1.0 / excess[..., -1:]
        shapes = np.log1p(-b[..., None] * excess[..., None, :]).mean(axis=-1)
        score = n * (np.log(-b / shapes) - shapes - 1.0)
        weight = np.exp(score - score.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        weight = np.where(weight >= 10 * np.finfo(float).eps, weight, 0.0)
        middle = np.sum(b * weight, axis=-1) / weight.sum(axis=-1)
        shape = np.log1p(-middle[..., None] * excess).mean(axis=-1)
        usable = (quartile > excess[..., 0]) & ~np.isnan(shape)
        scale = np.where(usable, -shape / middle, math.nan)
    return np.where(usable, (n * shape + 10.0 * 0.5) / (n + 10.0), math.nan), scale
