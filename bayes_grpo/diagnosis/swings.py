"""How far a reward swings about its slow trend, and from which row on."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from bayes_grpo.diagnosis.trend import DRAWS, Trend

LEAST = 4
"""Rows that a change of spread needs on either side."""
CALMER = 0.5
"""Spread of the rows before a change over that of the rows after it, at most."""
JUMP = 0.5
"""Share of the variance about a cubic that a jump takes, at least."""
_CALM = 0.1  # spread of calm rows that the prior expects, over that of all rows


def about_trend(y: np.ndarray) -> np.ndarray:
    """Rows less their cubic trend, and less one jump where that takes more than half of what is left; shape (n,).

    A reward that takes off at once, or is lost at once, does not swing. A jump takes a tenth to a half of what true
    swings leave, which stays with them.

    Args:
        y: Rows in order, shape (n,).
    """
    n = len(y)
    cubic = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, n), min(4, n)))[0]
    away = y - cubic @ (cubic.T @ y)
    if n < 2 * LEAST:
        return away
    # Of a jump at each row: what it shares with the rows about the cubic, and how much of it the cubic leaves.
    first = np.arange(2, n - 1)
    along, bent = _sum_from(away)[first], _sum_from(cubic)[first]
    size = (n - first) - (bent * bent).sum(axis=1)
    taken = along**2 / size
    best = int(taken.argmax())
    if taken[best] <= JUMP * float(away @ away):
        return away
    jump = (np.arange(n) >= first[best]) - cubic @ bent[best]
    return away - jump * along[best] / size[best]


def _sum_from(x: np.ndarray) -> np.ndarray:
    """Sums of each row and all after it."""
    return np.cumsum(x[::-1], axis=0)[::-1]


def swing_sd(course: Trend) -> float:
    """Standard deviation of a course's rows about their slow trend."""
    return float(about_trend(course.value).std())


def wider_from(y: np.ndarray, seed: int = 0) -> np.ndarray:
    """Draws of the first of the rows that spread wider than those before it, shape (`DRAWS`,).

    Rows about their slow trend are normal with one variance before that row and a larger one, by `CALMER`, from it on;
    both are integrated out (inverse gamma priors worth one row). That all rows are alike, and it is the first, is as
    likely as a change, which may lie at any row. Neighbouring rows of a swing say the same, so what rows say counts by
    the effective number of an autoregression with the lag-one correlation r of their squares, (1 − r) / (1 + r) of it.

    Args:
        y: Rows in order, shape (n,), at least `LEAST`.
        seed: Seed.
    """
    n, away = len(y), about_trend(y)
    squares = away**2
    total, off = float(squares.mean()), squares - squares.mean()
    if total <= (1e-9 * float(np.abs(y).max())) ** 2:
        return np.zeros(DRAWS, int)
    r = float(np.clip(off[1:] @ off[:-1] / max(off @ off, 1e-300), 0.0, 0.95))
    told = (1.0 - r) / (1.0 + r)
    first = np.concatenate([[0], np.arange(LEAST, n - LEAST + 1)])
    before = np.concatenate([[0.0], np.cumsum(squares)])[first]
    after = n * total - before

    def marginal(rows: np.ndarray, squares: np.ndarray, expected: float) -> np.ndarray:
        a, b = 0.5 + 0.5 * told * rows, 0.5 * expected + 0.5 * told * squares
        prior = 0.5 * np.log(0.5 * expected) - gammaln(0.5)
        return prior + gammaln(a) - a * np.log(b)

    log_weight = marginal(first, before, _CALM**2 * total) + marginal(n - first, after, total)
    calmer = before / np.maximum(first, 1) < CALMER**2 * after / (n - first)
    prior = np.where(first == 0, 0.0, -np.log(max(len(first) - 1, 1)))
    log_weight = np.where(calmer | (first == 0), log_weight + prior, -np.inf)
    weight = np.exp(log_weight - log_weight.max())
    return np.random.default_rng(seed).choice(first, DRAWS, p=weight / weight.sum())
