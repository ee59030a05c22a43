"""The picture of a forecast: the log, the bands of rewards to come, and marked events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL, QUANTILES, percent
from bayes_grpo.common.picture import headline, legend_below, one_panel
from bayes_grpo.common.results import reward_words
from bayes_grpo.common.text import drawable
from bayes_grpo.forecasting.forecast import Forecast
from bayes_grpo.forecasting.summary import Reach, reach_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas
    from bayes_grpo.logs.run import Run
    from bayes_grpo.signals.run_paths import RunPaths

_LATENT = "#1d4ed8"
_ROWS = "#9ca3af"
_HELD_OUT = "#c2410c"
_DATA = "#111827"
_TARGET = "#047857"
_EVENT = "#7e22ce"
_LINES = ("--", "-.", ":")


def plot_forecast(
    forecast: Forecast,
    title: str = "",
    figure: Canvas | None = None,
    reach: Sequence[float] = (),
    events: Mapping[str, float] = {},
) -> Canvas:
    """Draws a forecast: logged rows, the band of rows to come (gray) and that of the underlying reward (blue).

    Args:
        forecast: The forecast.
        title: Line above the figure.
        figure: Empty figure, or part of one, to draw on; a new one if None.
        reach: Target rewards: a line each, with the interval of the step that reaches it.
        events: Label → step of further events to mark.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    name = f"{drawable(forecast.name)}: forecast to step {forecast.until:g}"
    figure, axes = one_panel(figure, (9.2, 4.6), name, reward_words(forecast.signal))
    _draw_fan(axes, forecast)
    axes.plot(forecast.logged_step, forecast.logged, ".", color=_DATA, ms=3.5, alpha=0.7, label="logged")
    _mark(axes, schedule_end(forecast) | dict(events))
    low, high = _view(forecast.logged, forecast)
    for value in reach:
        _draw_reach(axes, reach_of(forecast, value))
        # A target is shown, unless that would flatten all else.
        if low - 0.5 * (high - low) <= value <= high + 0.5 * (high - low):
            low, high = min(low, value - 0.03 * (high - low)), max(high, value + 0.03 * (high - low))
    axes.set_ylim(low, high)
    legend_below(figure, axes)
    if title:
        headline(figure, title)
    return figure


def plot_overview(
    run: Run,
    paths: RunPaths | None,
    forecast: Forecast | None,
    events: Mapping[str, float],
    figure: Canvas | None = None,
) -> Canvas:
    """Draws train and evaluation rewards with their levels, the forecast, and marked events on one axis."""
    figure, axes = one_panel(figure, (9.2, 3.7), vertical="reward")
    if forecast is not None:
        _draw_fan(axes, forecast)
        events = schedule_end(forecast) | dict(events)
    for step, reward, mark, color, label in (
        (run.step, run.reward, ".", _DATA, "train reward"),
        (run.eval_step, run.eval_reward, "s", _HELD_OUT, "evaluation reward"),
    ):
        if np.isfinite(reward).any():
            axes.plot(step, reward, mark, color=color, ms=3.5, alpha=0.4, label=label)
    if paths is not None:
        _draw_levels(axes, paths)
    _mark(axes, events)
    axes.set_ylim(*_view(np.concatenate([run.reward, run.eval_reward]), forecast))
    legend_below(figure, axes)
    return figure


def _draw_levels(axes: Axes, paths: RunPaths) -> None:
    """The levels of train and evaluation reward, without the noise of their rows."""
    levels = {"evaluation reward" if paths.uses_eval else "train reward": paths.reward}
    if paths.held_out is not None:
        levels[f"{paths.held_out_name} reward"] = paths.held_out
    for name, path in levels.items():
        color = _DATA if name == "train reward" else _HELD_OUT
        axes.plot(path.step, np.median(path.draws, axis=0), color=color, lw=1.4, label=f"{name}, smoothed")


def schedule_end(f: Forecast) -> dict[str, float]:
    """Step at which the learning rate reaches 0, by its label; nothing where that lies beyond the horizon."""
    end = f.schedule.total_steps
    return {"learning rate reaches 0": end} if math.isfinite(end) and end <= f.until else {}


def _draw_fan(axes: Axes, f: Forecast) -> None:
    """The bands of rows and of the underlying reward to come."""
    step = np.concatenate([[f.now], f.step])
    latent = np.concatenate([f.latent_now[:, None], f.latent], axis=1)
    tails = QUANTILES[::2]
    for at, draws, ends, color, alpha, label in (
        (f.step, f.rows, tails, _ROWS, 0.3, f"forecast of logged rows, {LEVEL:.0%}"),
        (step, latent, tails, _LATENT, 0.18, f"forecast of the underlying reward, {LEVEL:.0%}"),
        (step, latent, [0.25, 0.75], _LATENT, 0.25, "forecast of the underlying reward, 50%"),
    ):
        axes.fill_between(at, *np.quantile(draws, ends, axis=0), color=color, alpha=alpha, lw=0, label=label)
    axes.plot(step, np.median(latent, axis=0), color=_LATENT, lw=1.6, label="median of that forecast")
    if np.quantile(f.rows, tails[1], axis=0).max() >= f.high:  # there the band of rows is cut
        axes.axhline(f.high, color=_ROWS, lw=0.8, ls="--", label=f"highest reward, set or assumed: {f.high:g}")
    used = f.reference_runs
    for i, (at, reward) in enumerate(used.curves if used is not None and used.count else ()):
        inside = at <= f.until
        axes.plot(at[inside], reward[inside], color=_ROWS, lw=0.7, alpha=0.5, zorder=0.5,
                  label=None if i else "reference runs")  # fmt: skip
    axes.axvline(f.now, color=_DATA, lw=0.8, ls=":", label=f"now: step {f.now:g}")


def _mark(axes: Axes, events: Mapping[str, float]) -> None:
    for i, (label, step) in enumerate(events.items()):
        axes.axvline(step, color=_EVENT, lw=1.1, ls=_LINES[i % 3], label=drawable(f"{label}: step {step:.0f}", 60))


def _draw_reach(axes: Axes, found: Reach) -> None:
    label = f"{found.reward:g} by step {found.until:g}: {percent(found.by_horizon)}"
    axes.axhline(found.reward, color=_TARGET, lw=0.9, ls="--", label=label)
    low, middle, high = (min(x, found.until) for x in (found.step.low, found.step.median, found.step.high))
    if math.isfinite(found.step.low):
        axes.plot([low, high], [found.reward] * 2, color=_TARGET, lw=3.0, alpha=0.6, solid_capstyle="butt")
    if math.isfinite(found.step.median):
        axes.plot(middle, found.reward, "o", color=_TARGET, ms=5)


def _view(logged: np.ndarray, forecast: Forecast | None) -> tuple[float, float]:
    """Vertical range: what was logged, and the middle of what is to come."""
    ahead = () if forecast is None else np.quantile(forecast.rows, [0.05, 0.95], axis=0).ravel()
    known = np.concatenate([logged, ahead])
    known = known[np.isfinite(known)]
    if not len(known):
        return 0.0, 1.0
    pad = 0.06 * max(float(np.ptp(known)), 1e-6)
    return float(known.min()) - pad, float(known.max()) + pad
