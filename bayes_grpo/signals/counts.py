"""Sparse rewards of few completions a row: how probable it is, by the counts, that their rate never changed.

    P(one rate | counts) = 1 / (1 + Σ_k B(s₁ₖ, f₁ₖ) B(s₂ₖ, f₂ₖ) / ((n − 1) B(s, f)))

with s successes and f failures of all rows, those before row k and those from it on, each plus 1; B is the beta
function, and a rate that changes at one row, whichever it is, is as probable beforehand as one that does not. The path
has normal noise of one size in every row. Counts near 0 do not: a few successes among failures lie together by chance,
and look like a level that was lost. Completions of a row are alike, so that they count as fewer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.rows.known_noise import BY_LEVEL
from bayes_grpo.signals.thresholds import THRESHOLDS

_EXACT = 1e-3
"""Completions by which a logged share may miss a whole number of successes."""


class Counts(NamedTuple):
    """Successes and failures of each row, as of independent completions, shape (n,) both."""

    successes: np.ndarray
    failures: np.ndarray


def counts_of(share: np.ndarray) -> Counts | None:
    """Counts behind the shares of rows, shape (n,); None where few are 0 or 1, or rows are of many completions."""
    if float(np.isin(share, (0.0, 1.0)).mean()) <= THRESHOLDS.idle:
        return None
    size = next((n for n in range(1, THRESHOLDS.counted + 1) if _are_integers(n * share)), None)
    if size is None:
        return None
    independent = size / (1.0 + (size - 1.0) * BY_LEVEL.correlation)
    return Counts(independent * share, independent * (1.0 - share))


def _are_integers(counts: np.ndarray) -> bool:
    return bool(np.abs(counts - np.round(counts)).max() <= _EXACT)


def at_one_rate(counts: Counts) -> float:
    """Probability that one rate made the counts of all rows."""
    before = [np.cumsum(x)[:-1] for x in counts]
    totals = [float(x.sum()) for x in counts]
    after = [total - part for total, part in zip(totals, before, strict=True)]
    parted = _log_beta(*before) + _log_beta(*after)
    ratio = parted - _log_beta(*(np.array([x]) for x in totals))
    log_odds = float(np.logaddexp.reduce(ratio)) - math.log(len(ratio))
    return float(np.exp(-np.logaddexp(0.0, log_odds)))


def flatten_by_counts(path: np.ndarray, counts: Counts, rng: np.random.Generator) -> np.ndarray:
    """Draws of a path, shape (draws, n), of which as many stay at one rate as the counts make probable."""
    resting = rng.uniform(size=len(path)) < at_one_rate(counts)
    rate = rng.beta(1.0 + counts.successes.sum(), 1.0 + counts.failures.sum(), size=len(path))
    return np.where(resting[:, None], rate[:, None], path)


def _log_beta(successes: np.ndarray, failures: np.ndarray) -> np.ndarray:
    """Logarithm of B(s + 1, f + 1), shape (n,)."""
    return _log_factorial(successes) + _log_factorial(failures) - _log_factorial(successes + failures + 1.0)


def _log_factorial(x: np.ndarray) -> np.ndarray:
    return np.array([math.lgamma(value + 1.0) for value in x])
