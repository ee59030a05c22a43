"""R-hat, effective sample sizes and E-BFMI of chains.

Rank-normalized, on split chains: Vehtari et al. 2021 (https://doi.org/10.1214/20-BA1221); E-BFMI: Betancourt 2016
(https://arxiv.org/abs/1604.00695). ArviZ computes the same, and the tests compare the two, but it brings SciPy's
statistics, xarray and pandas: a second of each fit and a hundred MB.

Draws have the shape (chains, draws) everywhere; a check of draws that hold NaN is NaN.
"""

from __future__ import annotations

import math

import numpy as np

TAILS = (0.05, 0.95)
"""Quantiles whose effective sample sizes are those of the tails."""
_EQUAL = 1e-15
"""Values that differ by less are one value."""


def rhat(draws: np.ndarray) -> float:
    """The larger one of bulk and tail R-hat."""
    if np.isnan(draws).any():
        return math.nan
    halves = _halves(draws)
    return max(_plain_rhat(_normal_scores(x)) for x in (halves, np.abs(halves - np.median(halves))))


def bulk_size(draws: np.ndarray) -> float:
    """Effective sample size of the bulk."""
    return math.nan if np.isnan(draws).any() else _size(_normal_scores(_halves(draws)))


def tail_size(draws: np.ndarray) -> float:
    """Effective sample size of the tails: the smaller one of the two quantiles `TAILS`."""
    if np.isnan(draws).any():
        return math.nan
    return min(_size(_halves(draws <= np.quantile(draws, q)).astype(float)) for q in TAILS)


def bfmi(energy: np.ndarray) -> np.ndarray:
    """Energy Bayesian fraction of missing information of each chain."""
    return np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1, ddof=1)


def _halves(draws: np.ndarray) -> np.ndarray:
    """First and last halves of the chains as chains of their own."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(x: np.ndarray) -> np.ndarray:
    """Ranks of all values as quantiles of the standard normal (Blom 1958); equal values share their mean rank."""
    from scipy.special import ndtri

    _, where, counts = np.unique(x, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - 0.5 * (counts - 1.0))[where]
    return ndtri((rank - 0.375) / (x.size + 0.25)).reshape(x.shape)


def _plain_rhat(x: np.ndarray) -> float:
    n = x.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that stand still
        return float(np.sqrt((n * np.var(x.mean(axis=1), ddof=1) / np.var(x, axis=1, ddof=1).mean() + n - 1) / n))


def _size(x: np.ndarray) -> float:
    """Effective sample size of a mean, by Geyer's initial monotone sequence of pairs of autocorrelations."""
    if np.ptp(x) < _EQUAL:
        return float(x.size)
    n = x.shape[1]
    covariance = _autocovariance(x).mean(axis=0)
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0] + np.var(x.mean(axis=1), ddof=1)
    rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    last = max(0, (n - 3) // 2)  # the pairs beyond rest on hardly any products
    negative = np.flatnonzero(pairs[:last] <= 0.0)
    end = int(negative[0]) if len(negative) else last
    time = -1.0 + 2.0 * np.minimum.accumulate(pairs[:end]).sum() + max(rho[2 * end], 0.0)
    return float(x.size / max(time, 1.0 / math.log10(x.size)))


def _autocovariance(x: np.ndarray) -> np.ndarray:
    """Autocovariances of each chain at every lag, over the number of draws."""
    n = x.shape[1]
    spectrum = np.fft.rfft(x - x.mean(axis=1, keepdims=True), n=2 ** math.ceil(math.log2(2 * n)), axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n] / n
