"""How well chains mix: rank R-hat, effective sample sizes, E-BFMI, in NumPy.

R-hat and ESS as in Vehtari et al. 2021 (https://doi.org/10.1214/20-BA1221), E-BFMI as in Betancourt 2016
(https://arxiv.org/abs/1604.00695). ArviZ computes the same, to which they are compared in the tests, but takes seconds
to import, longer than the chains.
"""

from __future__ import annotations

import math

import numpy as np


def rhat(draws: np.ndarray) -> float:
    """Split R-hat of ranks, the larger one of bulk and tails.

    Args:
        draws: Shape (chains, draws).

    Returns:
        1 where all chains agree; NaN where a draw is not finite.
    """
    if not np.isfinite(draws).all():
        return math.nan
    halves = _halves(draws)
    return max(_plain_rhat(_normal_scores(x)) for x in (halves, np.abs(halves - np.median(halves))))


def ess_bulk(draws: np.ndarray) -> float:
    """Effective sample size of the ranks, split chains; NaN where a draw is not finite.

    Args:
        draws: Shape (chains, draws).
    """
    return _ess(_normal_scores(_halves(draws))) if np.isfinite(draws).all() else math.nan


def ess_tail(draws: np.ndarray, low: float, high: float) -> float:
    """The smaller effective sample size of two quantiles; NaN where a draw is not finite.

    Args:
        draws: Shape (chains, draws).
        low: Probability below the lower quantile.
        high: Probability below the upper one.
    """
    if not np.isfinite(draws).all():
        return math.nan
    return min(_ess(_halves((draws <= np.quantile(draws, p)).astype(float))) for p in (low, high))


def energy_fraction(energy: np.ndarray) -> np.ndarray:
    """Energy Bayesian fraction of missing information of every chain.

    Args:
        energy: Shape (chains, draws).

    Returns:
        Shape (chains,).
    """
    return np.square(np.diff(energy, axis=1)).mean(axis=1) / np.var(energy, axis=1, ddof=1)


def _halves(draws: np.ndarray) -> np.ndarray:
    """Both halves of every chain as chains; the middle draw of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks over all chains (Blom 1958); equal draws share their mean rank."""
    from scipy.special import ndtri

    ordered = np.sort(draws, axis=None)
    rank = 0.5 * (np.searchsorted(ordered, draws, "left") + np.searchsorted(ordered, draws, "right") + 1.0)
    return ndtri((rank - 0.375) / (draws.size + 0.25))


def _plain_rhat(draws: np.ndarray) -> float:
    n = draws.shape[1]
    within = np.var(draws, axis=1, ddof=1).mean()
    between = n * np.var(draws.mean(axis=1), ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.sqrt((between / within + n - 1) / n))


def _ess(draws: np.ndarray) -> float:
    """Effective sample size by Geyer's initial monotone sequence, shape (chains, draws)."""
    chains, n = draws.shape
    total = chains * n
    if np.ptp(draws) < np.finfo(float).resolution:
        return float(total)
    away = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(away, 2 ** math.ceil(math.log2(2 * n)), axis=1)
    autocovariance = np.fft.irfft(spectrum * spectrum.conj(), axis=1)[:, :n].mean(axis=0) / n
    within = autocovariance[0] * n / (n - 1.0)
    variance = autocovariance[0] + (np.var(draws.mean(axis=1), ddof=1) if chains > 1 else 0.0)
    correlation = 1.0 - (within - autocovariance) / variance
    correlation[0] = 1.0
    # Sums of neighbouring pairs are positive and fall; where they stop to be positive there is only noise.
    kept, even = [correlation[0], correlation[1]], 1.0
    t, odd = 1, correlation[1]
    while t < n - 3 and even + odd > 0.0:
        even, odd = correlation[t + 1], correlation[t + 2]
        kept += [even, odd] if even + odd >= 0.0 else [0.0, 0.0]
        t += 2
    last = t - 2
    kept += [0.0, 0.0]
    if even > 0:
        kept[last + 1] = even
    for i in range(1, last - 1, 2):
        if kept[i + 1] + kept[i + 2] > kept[i - 1] + kept[i]:
            kept[i + 1] = kept[i + 2] = 0.5 * (kept[i - 1] + kept[i])
    time = -1.0 + 2.0 * sum(kept[: last + 1]) + sum(kept[last + 1 : last + 2])
    return float(total / max(time, 1.0 / math.log10(total)))
