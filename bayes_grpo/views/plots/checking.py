"""Picture of a check: residuals over time, their size, and their autocorrelation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.checking.check import autocorrelation
from bayes_grpo.checking.result import Check
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas
from bayes_grpo.common.text import title_lines
from bayes_grpo.fitting.result import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

_SEEN, BAND = "#c2410c", "#9ca3af"
_REPLICATES = 2000


def plot_check(fit: Fit, check: Check, level: float = LEVEL, figure: Canvas | None = None) -> Canvas:
    """Draws a check.

    Grey bands hold replicated rows of the same length under the regime, at each point with the probability of the
    level. ArviZ draws Pareto k and the PIT (`plot_khat`, `plot_loo_pit` on `Fit.to_datatree`).

    Args:
        fit: The fit.
        check: Its check.
        level: Probability inside the bands.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (13, 3.9))
    axes = figure.subplots(1, 3)
    e = np.median(check.residuals.innovation, axis=0)
    noise = np.random.default_rng(0).standard_normal((_REPLICATES, len(e)))
    _plot_residuals(axes[0], fit.step(), check)
    _plot_spread(axes[1], fit.step(), e, noise, level)
    _plot_autocorrelation(axes[2], e, noise, level)
    for a in axes:
        a.tick_params(labelsize=8)
        a.spines[["top", "right"]].set_visible(False)
    title = f"{check.about.run}: {check.sentence} ({level:.0%} bands of replicates)"
    figure.suptitle(title_lines(title, 150), fontsize=10, x=0.01, ha="left")
    return figure


def _band(draws: np.ndarray, level: float) -> Any:
    return np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)


def plot_residuals(fit: Fit, check: Check, figure: Canvas | None = None) -> Canvas:
    """Draws the leave-one-out residuals alone."""
    figure = canvas(figure, (6.0, 2.7))
    _plot_residuals(figure.add_subplot(), fit.step(), check)
    return figure


def _plot_residuals(axes: Axes, step: np.ndarray, check: Check) -> None:
    loo = np.median(check.residuals.loo, axis=0)
    limit = next(f.limit for f in check.findings if f.name == "outliers")
    axes.axhspan(-limit, limit, color=BAND, alpha=0.25, lw=0)
    axes.axhline(0, color=BAND, lw=0.8)
    axes.plot(step, loo, ".", color="#111827", ms=4)
    out = np.abs(loo) > limit
    axes.plot(step[out], loo[out], "o", mfc="none", color=_SEEN, ms=8)
    axes.set_title("leave-one-out residuals (band: 95% of replicates inside)", fontsize=9, loc="left")
    axes.set_xlabel("optimizer step", fontsize=8)
    axes.set_ylabel("sd", fontsize=8)


def _plot_spread(axes: Axes, step: np.ndarray, e: np.ndarray, noise: np.ndarray, level: float) -> None:
    """Standard deviation of the one-step residuals in a running window of an eighth of the rows."""
    width = max(6, len(e) // 8)

    def running(x: np.ndarray) -> np.ndarray:
        total = np.cumsum(np.concatenate([np.zeros((*x.shape[:-1], 1)), x**2], axis=-1), axis=-1)
        return np.sqrt((total[..., width:] - total[..., :-width]) / width)

    at = np.convolve(step, np.ones(width) / width, mode="valid")
    axes.fill_between(at, *_band(running(noise), level), color=BAND, alpha=0.3, lw=0)
    axes.plot(at, running(e), color=_SEEN, lw=1.5)
    axes.set_ylim(bottom=0)
    axes.set_title(f"size of the one-step residuals, {width} rows at a time", fontsize=9, loc="left")
    axes.set_xlabel("optimizer step", fontsize=8)
    axes.set_ylabel("sd", fontsize=8)


def _plot_autocorrelation(axes: Axes, e: np.ndarray, noise: np.ndarray, level: float) -> None:
    lags = max(1, min(20, len(e) // 3))
    place = np.arange(1, lags + 1)
    axes.fill_between(place, *_band(autocorrelation(noise, lags), level), color=BAND, alpha=0.3, lw=0)
    axes.axhline(0, color=BAND, lw=0.8)
    axes.vlines(place, 0, autocorrelation(e, lags), color=_SEEN, lw=2)
    axes.set_title("autocorrelation of the one-step residuals", fontsize=9, loc="left")
    axes.set_xlabel("lag, rows", fontsize=8)
