"""Baselines of a forecast, from the same rows, without a regime.

Each rival takes the logged rows and the steps to come and returns a normal predictive distribution of every row to
come. Residual noise is estimated from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_LAST = 10
"""Rows whose mean is the rival to beat late in a run."""


class Normal(NamedTuple):
    """Mean and standard deviation of every row to come, shape (h,) each."""

    mean: np.ndarray
    sd: np.ndarray

    def draws(self, size: int) -> np.ndarray:
        """Equally likely values, shape (size, h): quantiles in the place of random numbers."""
        from scipy.special import ndtri

        return self.mean + self.sd * ndtri((np.arange(size) + 0.5) / size)[:, None]


Rival = Callable[[np.ndarray, np.ndarray, np.ndarray], Normal]
"""Steps (n,), logged rows (n,), steps to come (h,) → predictive distribution."""


def last_value(step: np.ndarray, y: np.ndarray, ahead: np.ndarray) -> Normal:
    """The last row, with the spread of the change from row to row."""
    return _constant(y[-1], np.diff(y), ahead)


def mean_of_last(step: np.ndarray, y: np.ndarray, ahead: np.ndarray) -> Normal:
    """Mean of the last ten rows, with the spread of rows about the mean of the ten before them."""
    if len(y) <= _LAST:
        return _constant(float(y.mean()), y - y.mean(), ahead)
    before = np.convolve(y, np.ones(_LAST) / _LAST, mode="valid")[:-1]
    errors = y[_LAST:] - before
    if len(errors) < _LAST:
        errors = np.concatenate([errors, y[-_LAST:] - y[-_LAST:].mean()])
    return _constant(float(y[-_LAST:].mean()), errors, ahead)


def _constant(value: float, errors: np.ndarray, ahead: np.ndarray) -> Normal:
    sd = max(float(np.sqrt(np.mean(np.square(errors)))), 1e-12)
    return Normal(np.full(len(ahead), value), np.full(len(ahead), sd))


def exponential(step: np.ndarray, y: np.ndarray, ahead: np.ndarray) -> Normal:
    """Least squares of R* − (R* − R₀) e^(−t/τ), the curve of arXiv 2507.18014, with the spread of the residuals."""
    length = step[-1] - step[0]

    def curve(t: np.ndarray, p: np.ndarray) -> np.ndarray:
        return p[0] - (p[0] - p[1]) * np.exp(-(t - step[0]) / np.exp(p[2]))

    starts = [[y[-_LAST:].mean(), y[:3].mean(), np.log(length * share)] for share in (0.05, 0.2, 1.0)]
    return least_squares_fit(curve, starts, step, y, ahead)


def least_squares_fit(
    curve: Callable[[np.ndarray, np.ndarray], np.ndarray],
    starts: list[list[float]],
    step: np.ndarray,
    y: np.ndarray,
    ahead: np.ndarray,
) -> Normal:
    """The best of several least-squares fits of a curve, with the residuals' spread.

    Args:
        curve: Steps and parameters → rewards.
        starts: Parameters to begin with, one fit each.
        step: Steps of the rows, shape (n,).
        y: Their rewards, shape (n,).
        ahead: Steps to come, shape (h,).
    """
    from scipy.optimize import least_squares

    fits = [least_squares(lambda p: curve(step, p) - y, s, method="lm", max_nfev=4000) for s in starts]
    best = min(fits, key=lambda f: f.cost if np.isfinite(f.cost) else np.inf)
    residual = curve(step, best.x) - y
    sd = float(np.sqrt(np.sum(residual**2) / max(len(y) - len(best.x), 1)))
    return Normal(np.nan_to_num(curve(ahead, best.x), nan=float(y[-1])), np.full(len(ahead), max(sd, 1e-12)))


RIVALS: dict[str, Rival] = {"last": last_value, "mean10": mean_of_last, "exponential_ls": exponential}
