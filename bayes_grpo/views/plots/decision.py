"""Pictures of a decision: net value against stopping step, and the recommended step in a forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_grpo.common.picture import canvas, legend_below
from bayes_grpo.common.text import title_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas
    from bayes_grpo.decision.result import Decision

NET, MARK = "#047857", "#374151"


def plot_decision(decision: Decision, name: str = "", figure: Canvas | None = None) -> Canvas:
    """Draws the net value of every stopping step.

    Args:
        decision: What stopping at every step is worth.
        name: Name of the run.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (9, 4.5))
    axes = figure.add_subplot()
    draw_net_value(axes, decision)
    axes.set_xlabel("stop at optimizer step")
    title = f"{name}: {decision.sentence}" if name else decision.sentence
    figure.suptitle(title_lines(title, 120), fontsize=9, x=0.01, ha="left")
    return figure


def draw_net_value(axes: Axes, decision: Decision) -> None:
    """Expected net value with its band; the recommended step is marked."""
    step = decision.step
    axes.fill_between(
        step, decision.net_low, decision.net_high, color=NET, alpha=0.18, lw=0, label=f"{decision.level:.0%} interval"
    )
    axes.plot(step, decision.net, color=NET, lw=1.8, label="expected net value")
    axes.axhline(0.0, color="#111827", lw=0.8)
    axes.plot(
        decision.recommended,
        decision.expected(decision.recommended),
        "o",
        color=MARK,
        ms=6,
        label=f"recommended stop: step {decision.recommended:g}",
        zorder=3,
    )
    axes.set_ylabel("net value of stopping there")
    axes.margins(x=0.02)
    axes.legend(fontsize=8, frameon=False, loc="best")
    axes.spines[["top", "right"]].set_visible(False)


def mark_stop(figure: Canvas, decision: Decision) -> Canvas:
    """Marks the recommended step in a picture of a forecast.

    Args:
        figure: Picture from `bayes_grpo.views.plots.forecasting.plot_forecast`.
        decision: What stopping at every step is worth.

    Returns:
        The same figure.
    """
    axes = figure.axes[0]
    label = f"recommended stop: step {decision.recommended:g}"
    axes.axvline(decision.recommended, color=MARK, lw=1.2, ls="--", label=label)
    legend_below(figure, axes)
    return figure
