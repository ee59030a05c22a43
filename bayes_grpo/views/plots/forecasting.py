"""Pictures of a forecast: the fan over the log, and the posterior of the plateau."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.common.picture import canvas, legend_below
from bayes_grpo.common.text import drawable, title_lines
from bayes_grpo.forecasting.reach import Reach, reach_of
from bayes_grpo.forecasting.result import Forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas


_LATENT, _ROWS, PLATEAU, _DATA, _TARGET = "#1d4ed8", "#9ca3af", "#c2410c", "#111827", "#047857"


def plot_forecast(
    forecast: Forecast,
    title: str = "",
    level: float = LEVEL,
    figure: Canvas | None = None,
    reach: Sequence[float] = (),
) -> Canvas:
    """Draws a forecast.

    Left: logged rows, the band in which rows to come should fall (gray) and the one for the underlying reward
    (blue, with a darker half and the median). Right, on the same axis: where the reward settles in the end.

    Args:
        forecast: The forecast.
        title: Line above the figure.
        level: Probability inside the outer bands.
        figure: Empty figure, or part of one, to draw on; a new one if None.
        reach: Target rewards: a line each, with the interval of the step that reaches it.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (12, 5.2))
    grid = figure.add_gridspec(1, 2, width_ratios=(4, 1))
    fan = figure.add_subplot(grid[0, 0])
    draw_fan(fan, forecast, level)
    if (end := schedule_end(forecast)) is not None:
        fan.axvline(end, color=PLATEAU, lw=0.8, ls="--", label="learning rate reaches 0")
    low, high = _view(forecast)
    for value in reach:
        _draw_reach(fan, reach_of(forecast, value, level))
        # A target is shown, unless that would flatten all else.
        if low - 0.5 * (high - low) <= value <= high + 0.5 * (high - low):
            low, high = min(low, value - 0.03 * (high - low)), max(high, value + 0.03 * (high - low))
    fan.set_ylim(low, high)
    _draw_plateau(figure.add_subplot(grid[0, 1], sharey=fan), forecast, low, high, level)
    legend_below(figure, fan)
    if title:
        figure.suptitle(title_lines(title, 150), fontsize=10, x=0.01, ha="left")
    return figure


def schedule_end(f: Forecast) -> float | None:
    """Step at which the learning rate reaches 0 before the horizon; None where it does not."""
    end = f.schedule.total_steps
    return end if math.isfinite(end) and end <= f.until else None


def draw_fan(axes: Axes, f: Forecast, level: float, logged: bool = True) -> None:
    """Draws the bands of rows and of the underlying reward to come, and the logged rows unless they are drawn."""
    step = np.concatenate([[f.now], f.step])
    latent = np.concatenate([f.latent_now[:, None], f.latent], axis=1)
    tails = [(1 - level) / 2, (1 + level) / 2]
    axes.fill_between(
        f.step,
        *np.quantile(f.rows, tails, axis=0),
        color=_ROWS,
        alpha=0.3,
        lw=0,
        label=f"forecast of logged rows, {level:.0%}",
    )
    axes.fill_between(
        step,
        *np.quantile(latent, tails, axis=0),
        color=_LATENT,
        alpha=0.18,
        lw=0,
        label=f"forecast of the underlying reward, {level:.0%}",
    )
    axes.fill_between(
        step,
        *np.quantile(latent, [0.25, 0.75], axis=0),
        color=_LATENT,
        alpha=0.25,
        lw=0,
        label="forecast of the underlying reward, 50%",
    )
    axes.plot(step, np.median(latent, axis=0), color=_LATENT, lw=1.6, label="median of that forecast")
    for i, (at, reward) in enumerate(f.siblings.curves if f.siblings is not None and f.siblings.count else ()):
        inside = at <= f.until
        axes.plot(at[inside], reward[inside], color=_ROWS, lw=0.7, alpha=0.5, zorder=0.5,
                  label=None if i else "reference runs")  # fmt: skip
    if logged:
        axes.plot(f.logged_step, f.logged, ".", color=_DATA, ms=3.5, alpha=0.7, label="logged")
    axes.axvline(f.now, color=_DATA, lw=0.8, ls=":", label=f"now: step {f.now:g}")
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("reward" if f.signal == "reward" else "held-out reward")
    axes.set_title(f"{drawable(f.name)}: forecast to step {f.until:g}", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_reach(axes: Axes, found: Reach) -> None:
    label = f"{found.reward:g} by step {found.until:g}: {probability_text(found.by_horizon)}"
    axes.axhline(found.reward, color=_TARGET, lw=0.9, ls="--", label=label)
    low, middle, high = (min(x, found.until) for x in (found.step.low, found.step.median, found.step.high))
    if math.isfinite(found.step.low):
        axes.plot([low, high], [found.reward] * 2, color=_TARGET, lw=3.0, alpha=0.6, solid_capstyle="butt")
    if math.isfinite(found.step.median):
        axes.plot(middle, found.reward, "o", color=_TARGET, ms=5)


def _draw_plateau(axes: Axes, f: Forecast, low: float, high: float, level: float) -> None:
    bins = np.linspace(low, high, 60)
    decays = math.isfinite(f.schedule.total_steps)
    axes.hist(np.clip(f.final, low, high), bins=bins.tolist(), orientation="horizontal", color=PLATEAU, alpha=0.45)
    for edge in np.quantile(f.final, [(1 - level) / 2, 0.5, (1 + level) / 2]):
        if low <= edge <= high:
            axes.axhline(float(edge), color=PLATEAU, lw=0.8, ls=":")
    outside = float(np.mean((f.final < low) | (f.final > high)))
    title = "reward in the end" if decays else "where it would settle"
    note = f"\n{outside:.0%} outside this axis, at its ends" if outside >= 0.005 else ""
    axes.set_title(f"{title}, {level:.0%}{note}", fontsize=9, loc="left")
    axes.set_xticks([])
    axes.tick_params(labelleft=False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _view(f: Forecast) -> tuple[float, float]:
    """Vertical range: the data and the rows to come; the plateau's far tails do not set the view."""
    rows = np.quantile(f.rows, [0.03, 0.97], axis=0)
    middle = np.quantile(f.final, [0.25, 0.75])
    low = min(float(f.logged.min()), float(rows[0].min()))
    high = max(float(f.logged.max()), float(rows[1].max()))
    span = high - low
    low, high = max(min(low, middle[0]), low - 0.5 * span), min(max(high, middle[1]), high + 0.5 * span)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)
