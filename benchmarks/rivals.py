"""More forecasts to beat than the package's own `backtest` prints: a sigmoid, ETS (statsmodels), a Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayes_grpo.backtesting import rivals
from bayes_grpo.backtesting.rivals import Normal, Rival, least_squares_fit
from bayes_grpo.rows.table import row_blocks

LAST = 10
"""Rows whose mean starts a least-squares fit."""
GP_ROWS = 300
"""Rows of the Gaussian process at most; longer logs are averaged in blocks."""


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


RIVALS: dict[str, Rival] = {**rivals.RIVALS, "sigmoid_ls": sigmoid, "ets": smoothing, "gp": gaussian_process}
"""All of them, the package's own among them."""
