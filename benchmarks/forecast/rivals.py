"""Baselines of a forecast, from the same rows, without a regime; of some the package `statsmodels` is needed.

Each rival takes the logged rows and the steps to come and returns a normal predictive distribution of every row to
come. Residual noise is estimated from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.rows.series import row_blocks

LAST = 10
"""Rows whose mean is the rival to beat late in a run."""
GP_ROWS = 300
"""Rows of the Gaussian process at most; longer logs are averaged in blocks."""


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
    if len(y) <= LAST:
        return _constant(float(y.mean()), y - y.mean(), ahead)
    before = np.convolve(y, np.ones(LAST) / LAST, mode="valid")[:-1]
    errors = y[LAST:] - before
    if len(errors) < LAST:
        errors = np.concatenate([errors, y[-LAST:] - y[-LAST:].mean()])
    return _constant(float(y[-LAST:].mean()), errors, ahead)


def _constant(value: float, errors: np.ndarray, ahead: np.ndarray) -> Normal:
    sd = max(float(np.sqrt(np.mean(np.square(errors)))), 1e-12)
    return Normal(np.full(len(ahead), value), np.full(len(ahead), sd))


def exponential(step: np.ndarray, y: np.ndarray, ahead: np.ndarray) -> Normal:
    """Least squares of R* − (R* − R₀) e^(−t/τ), the curve of arXiv 2507.18014, with the spread of the residuals."""
    length = step[-1] - step[0]

    def curve(t: np.ndarray, p: np.ndarray) -> np.ndarray:
        return p[0] - (p[0] - p[1]) * np.exp(-(t - step[0]) / np.exp(p[2]))

    starts = [[y[-LAST:].mean(), y[:3].mean(), np.log(length * share)] for share in (0.05, 0.2, 1.0)]
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


def sigmoid(step: np.ndarray, y: np.ndarray, ahead: np.ndarray) -> Normal:
    """Least squares of ScaleRL's R₀ + (A − R₀)/(1 + (C_mid/C)^B), arXiv 2510.13786, in optimizer steps."""
    origin = step[0] - np.median(np.diff(step))

    def curve(t: np.ndarray, p: np.ndarray) -> np.ndarray:
        x = np.exp(p[3]) * (p[2] - np.log(np.maximum(t - origin, 1e-12)))
        return p[1] + (p[0] - p[1]) / (1.0 + np.exp(np.clip(x, -500.0, 500.0)))

    length = step[-1] - origin
    starts = [
        [y[-LAST:].mean(), y[:3].mean(), np.log(length * share), np.log(power)]
        for share in (0.1, 0.3, 0.8)
        for power in (1.0, 3.0)
    ]
    return least_squares_fit(curve, starts, step, y, ahead)


def smoothing(step: np.ndarray, y: np.ndarray, ahead: np.ndarray) -> Normal:
    """Exponential smoothing with a damped trend, ETS(A, Ad, N) of statsmodels, row by row."""
    import warnings

    import pandas as pd
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel  # pyright: ignore[reportMissingImports]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        series = pd.Series(np.asarray(y, float))
        model: Any = ETSModel(series, error="add", trend="add", damped_trend=True)
        found = model.fit(disp=False)
        prediction = found.get_prediction(start=len(y), end=len(y) + len(ahead) - 1)
        mean, var = np.asarray(prediction.predicted_mean), np.asarray(prediction.forecast_variance)
    return Normal(mean, np.sqrt(np.maximum(var, 1e-24)))


def gaussian_process(step: np.ndarray, y: np.ndarray, ahead: np.ndarray) -> Normal:
    """Gaussian process: Matérn 3/2 about an unknown level, with noise; hyperparameters by maximum likelihood."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

    blocks = row_blocks(len(y), GP_ROWS)
    t, v, count = blocks.mean(step), blocks.mean(y), blocks.size
    centre, scale, length = float(y.mean()), max(float(y.std()), 1e-12), float(step[-1] - step[0])
    v = (v - centre) / scale

    def kernel(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> np.ndarray:
        r = np.sqrt(3.0) * np.abs(a[:, None] - b[None, :]) / np.exp(p[1])
        return 1.0 + np.exp(2 * p[0]) * (1.0 + r) * np.exp(-r)  # 1: the level's prior, of the data's own scale

    def factor(p: np.ndarray) -> Any:
        return cho_factor(kernel(t, t, p) + np.diag(np.exp(2 * p[2]) / count + 1e-10), lower=True)

    def cost(p: np.ndarray) -> float:
        try:
            c = factor(p)
        except np.linalg.LinAlgError:
            return 1e10
        return 0.5 * float(v @ cho_solve(c, v)) + float(np.sum(np.log(np.diag(c[0]))))

    bounds = [(-5.0, 2.0), (np.log(length / len(y)), np.log(5.0 * length)), (-6.0, 1.0)]
    begin = [[-0.5, np.log(length * share), -0.7] for share in (0.1, 0.5)]
    best = min((minimize(cost, b, bounds=bounds, method="L-BFGS-B") for b in begin), key=lambda r: float(r.fun)).x
    c, across = factor(best), kernel(ahead, t, best)
    mean = across @ cho_solve(c, v)
    var = 1.0 + np.exp(2 * best[0]) + np.exp(2 * best[2]) - np.sum(across * cho_solve(c, across.T).T, axis=1)
    return Normal(centre + scale * mean, scale * np.sqrt(np.maximum(var, 1e-12)))


RIVALS: dict[str, Rival] = {
    "last": last_value,
    "mean10": mean_of_last,
    "exponential_ls": exponential,
    "sigmoid_ls": sigmoid,
    "ets": smoothing,
    "gp": gaussian_process,
}
SIMPLE = ("last", "mean10", "exponential_ls")
"""Rivals of a backtest by default."""
