"""When a failure began: what modes read off the draws of a course.

Each draw of a course is one possible history; the step at which it begins to fail is read off every one of them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

POINTS = 120
"""Steps at which a course is asked."""
DRAWS = 200
"""Draws of the row at which swings begin."""
LEAST = 4
"""Rows that a change of spread needs on either side."""
CALMER = 0.5
"""Spread of the rows before a change over that of the rows after it, at most."""
_CALM = 0.1  # spread of calm rows that the prior expects, over that of all rows


def steps_between(first: float, last: float) -> np.ndarray:
    """Evenly spaced steps at which to ask a course, shape (`POINTS`,)."""
    return np.linspace(first, last, POINTS)


def last_true(condition: np.ndarray) -> np.ndarray:
    """Index of the last true value of each row, shape (rows,); 0 without any.

    Args:
        condition: Shape (rows, n).
    """
    n = condition.shape[1]
    return np.where(condition.any(axis=1), n - 1 - condition[:, ::-1].argmax(axis=1), 0)


def wider_from(y: np.ndarray, seed: int = 0) -> np.ndarray:
    """Draws of the first of the rows that spread wider than those before it, shape (`DRAWS`,).

    Rows about their cubic trend are normal with one variance before that row and a larger one, by `CALMER`, from it on;
    both are integrated out (inverse gamma priors worth one row). That all rows are alike, and it is the first, is as
    likely as a change, which may lie at any row. Neighbouring rows of a swing say the same, so what rows say counts by
    the effective number of an autoregression with the lag-one correlation r of their squares, (1 − r) / (1 + r) of it.

    Args:
        y: Rows in order, shape (n,), at least `LEAST`.
        seed: Seed.
    """
    n = len(y)
    t = np.linspace(-1.0, 1.0, n)
    away = y - np.polyval(np.polyfit(t, y, min(3, n - 1)), t)
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
