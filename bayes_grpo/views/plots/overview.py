"""Figures of one page: the run and its forecast in one picture, one signal, and the curves of several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas, legend_below
from bayes_grpo.common.text import drawable
from bayes_grpo.views.plots.forecasting import draw_fan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas
    from bayes_grpo.fitting.result import Fit
    from bayes_grpo.forecasting.result import Forecast
    from bayes_grpo.logs.run import Run

_TRAIN, _HELD_OUT, _EVENT = "#111827", "#c2410c", "#7e22ce"
RUN_COLORS = ("#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#0e7490", "#b45309", "#be185d", "#475569")
_LINES = ("-", "--", "-.", ":")
_BANDS = 8
"""Runs whose bands are drawn; more would hide each other."""
_SMOOTHED = 20
"""A signal of several runs is drawn as a mean over this share of its rows."""


def plot_overview(
    run: Run | None, forecast: Forecast | None, events: Mapping[str, float], figure: Canvas | None = None
) -> Canvas:
    """Draws train and held-out rewards, the forecast, and marked events on one axis.

    Args:
        run: The run; None where only a forecast is known.
        forecast: The forecast; None without one.
        events: Label → step.
        figure: Empty figure to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (9.2, 3.7))
    axes = figure.add_subplot()
    if forecast is not None:
        draw_fan(axes, forecast, LEVEL, logged=run is None)
    if run is not None:
        for step, reward, mark, color, label in (
            (run.step, run.reward, ".", _TRAIN, "train reward"),
            (run.eval_step, run.eval_reward, "s", _HELD_OUT, "held-out reward"),
        ):
            if np.isfinite(reward).any():
                axes.plot(step, reward, mark, color=color, ms=3.5, alpha=0.7, label=label)
    for i, (label, step) in enumerate(events.items()):
        axes.axvline(step, color=_EVENT, lw=1.1, ls=_LINES[1:][i % 3], label=drawable(f"{label}: step {step:.0f}", 60))
    low, high = _view(run, forecast)
    axes.set_ylim(low, high)
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("reward")
    axes.set_title("", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    legend_below(figure, axes)
    return figure


def _view(run: Run | None, forecast: Forecast | None) -> tuple[float, float]:
    """Vertical range: what was logged, and the middle of what is to come."""
    seen = [] if run is None else [run.reward, run.eval_reward]
    if forecast is not None:
        seen += [forecast.logged, np.quantile(forecast.rows, [0.05, 0.95], axis=0).ravel()]
    known = np.concatenate([np.asarray(x, float) for x in seen])
    known = known[np.isfinite(known)]
    if not len(known):
        return 0.0, 1.0
    pad = 0.06 * max(float(np.ptp(known)), 1e-6)
    return float(known.min()) - pad, float(known.max()) + pad


def plot_signals(runs: Mapping[str, Run], name: str, figure: Canvas | None = None) -> Canvas:
    """Draws one signal of one run as logged, or of several runs as running means.

    Args:
        runs: Name → run.
        name: The signal, or "held_out_reward".
        figure: Empty figure to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (3.6, 2.4))
    axes = figure.add_subplot()
    for i, (label, run) in enumerate(runs.items()):
        evaluated = name == "held_out_reward"
        step, values = (run.eval_step, run.eval_reward) if evaluated else (run.step, run.signals.get(name))
        if values is None or not (known := np.isfinite(values)).any():
            continue
        step, values = step[known], values[known]
        color = RUN_COLORS[i % len(RUN_COLORS)]
        if len(runs) == 1:
            axes.plot(step, values, ".-", color=color, ms=2.5, lw=0.7, label=label)
            continue
        kernel = np.ones(max(1, len(values) // _SMOOTHED))
        mean = np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")
        axes.plot(step, mean, color=color, lw=1.2, ls=_LINES[i % 4], label=drawable(label, 24).lstrip("_"))
    axes.set_title(name.replace("_", " "), fontsize=9, loc="left")
    axes.set_xlabel("optimizer step", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if len(runs) > 1:
        axes.legend(loc="best", fontsize=7, frameon=False)
    return figure


def plot_runs(runs: Sequence[tuple[str, Fit | None, Forecast | None]], figure: Canvas | None = None) -> Canvas:
    """Draws the underlying reward of several runs on one axis, and beyond each its forecast.

    Args:
        runs: Name, fit and forecast of each.
        figure: Empty figure to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (9.2, 3.7))
    axes = figure.add_subplot()
    for i, (name, fit, forecast) in enumerate(runs):
        color, line, band = RUN_COLORS[i % len(RUN_COLORS)], _LINES[i % 4], i < _BANDS
        label = drawable(name, 40).lstrip("_")
        if fit is not None:
            step = fit.step()
            latent = fit.trajectories("latent").reshape(-1, len(step))
            _curve(axes, step, latent, color, line, band=band, label=label)
        if forecast is not None:
            paths = np.concatenate([forecast.latent_now[:, None], forecast.latent], axis=1)
            ahead = np.concatenate([[forecast.now], forecast.step])
            _curve(axes, ahead, paths, color, line, band=band, label=label if fit is None else "_")
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("reward")
    axes.spines[["top", "right"]].set_visible(False)
    legend_below(figure, axes)
    return figure


def _curve(axes: Axes, step: np.ndarray, draws: np.ndarray, color: str, line: str, *, band: bool, label: str) -> None:
    low, middle, high = np.quantile(draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0)
    if band:
        axes.fill_between(step, low, high, color=color, alpha=0.15, lw=0)
    axes.plot(step, middle, color=color, lw=1.5, ls=line, label=label)
