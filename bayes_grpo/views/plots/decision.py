"""Pictures of a decision: net value against stopping step, and the best stopping step in a forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_grpo.common.picture import canvas, legend_below
from bayes_grpo.common.text import title_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas
    from bayes_grpo.decision.result import Stopping

NET, MARK = "#047857", "#374151"


def plot_decision(stopping: Stopping, name: str = "", figure: Canvas | None = None) -> Canvas:
    """Draws the net value of every stopping step.

    Args:
        stopping: What stopping at every step is worth.
        name: Name of the run.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (9, 4.5))
    axes = figure.add_subplot()
    draw_net_value(axes, stopping)
    axes.set_xlabel("stop at optimizer step")
    title = f"{name}: {stopping.sentence}" if name else stopping.sentence
    figure.suptitle(title_lines(title, 120), fontsize=9, x=0.01, ha="left")
    return figure


def draw_net_value(axes: Axes, stopping: Stopping) -> None:
    """Expected net value with its band; the recommended step is marked."""
    step = stopping.step
    axes.fill_between(
        step, stopping.net_low, stopping.net_high, color=NET, alpha=0.18, lw=0, label=f"{stopping.level:.0%} interval"
    )
    axes.plot(step, stopping.net, color=NET, lw=1.8, label="expected net value")
    axes.axhline(0.0, color="#111827", lw=0.8)
    axes.plot(
        stopping.recommended,
        stopping.expected(stopping.recommended),
        "o",
        color=MARK,
        ms=6,
        label=f"recommended stop: step {stopping.recommended:g}",
        zorder=3,
    )
    axes.set_ylabel("net value of stopping there" + (f" ({stopping.unit})" if stopping.unit else ""))
    axes.margins(x=0.02)
    axes.legend(fontsize=8, frameon=False, loc="best")
    axes.spines[["top", "right"]].set_visible(False)


def mark_stop(figure: Canvas, stopping: Stopping) -> Canvas:
    """Marks the recommended step and the interval of the best step in a picture of a forecast.

    Args:
        figure: Picture from `bayes_grpo.views.plots.forecasting.plot_forecast`.
        stopping: What stopping at every step is worth.

    Returns:
        The same figure.
    """
    axes = figure.axes[0]
    best = stopping.best_step
    if best.high > best.low:
        label = f"best stopping step, {stopping.level:.0%}"
        axes.axvspan(best.low, best.high, ymax=0.03, color=MARK, alpha=0.35, lw=0, label=label)
    label = f"recommended stop: step {stopping.recommended:g}"
    axes.axvline(stopping.recommended, color=MARK, lw=1.2, ls="--", label=label)
    legend_below(figure, axes)
    return figure
