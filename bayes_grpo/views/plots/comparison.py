"""Picture of a comparison: every regime on the data, and how much worse than the best each predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import title_lines
from bayes_grpo.comparison.result import CLEAR, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

_COLORS = (
    "#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#b45309", "#0e7490", "#be185d", "#4d7c0f", "#475569", "#111827",
)  # fmt: skip
_DATA, _GRID = "#111827", "#9ca3af"


def plot_comparison(comparison: Comparison, level: float = LEVEL, figure: Canvas | None = None) -> Canvas:
    """Draws a comparison.

    Left: one panel per regime, best first, with the logged rows, the noise-free curve with its credible band, and the
    predictive band of logged rows. Right: difference in elpd from the best regime with one standard error (the gray
    zone is no difference). Panel titles give the weights.

    Args:
        comparison: The comparison.
        level: Probability inside the bands.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    lines = comparison.lines
    columns = 2 if len(lines) > 1 else 1
    rows = -(-len(lines) // columns)
    figure = canvas(figure, (13, max(5.0, 2.3 * rows + 1.0)))
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.9, 1))
    left, right = parts
    panels = np.atleast_1d(left.subplots(rows, columns, sharex=True, sharey=True)).ravel()
    for i, axes in enumerate(panels):
        if i < len(lines):
            _plot_regime(axes, comparison, lines[i].regime, _COLORS[i % len(_COLORS)], level, legend=i == 0)
        else:
            axes.set_visible(False)
    for axes in panels[max(0, len(lines) - columns) : len(lines)]:
        axes.tick_params(labelbottom=True)
    left.supxlabel("optimizer step", fontsize=9)
    left.supylabel(comparison.about.reward, fontsize=9)
    _plot_differences(right.add_subplot(), comparison)
    title = f"{comparison.about.run}: {comparison.sentence}"
    figure.suptitle(title_lines(title, 165), fontsize=10, x=0.01, ha="left")
    return figure


def plot_differences(comparison: Comparison, figure: Canvas | None = None) -> Canvas:
    """Draws the differences in the scores alone, as on a phone."""
    figure = canvas(figure, (4.1, 3.4))
    _plot_differences(figure.add_subplot(), comparison)
    return figure


def _plot_regime(axes: Axes, comparison: Comparison, name: str, color: str, level: float, legend: bool) -> None:
    found, line = comparison.posteriors[name], comparison.line(name)
    step, y = found.draws.rows.table.step, found.draws.rows.table.y
    tails = [(1 - level) / 2, (1 + level) / 2]
    curve = found.curves()[0]
    predicted = found.measured_again(np.random.default_rng(seed_of(comparison.seed, "rows")))[1][0]
    axes.fill_between(step, *np.quantile(predicted, tails, axis=0), color=_GRID, alpha=0.25, lw=0, label="logged rows")
    axes.fill_between(step, *np.quantile(curve, tails, axis=0), color=color, alpha=0.25, lw=0)
    axes.plot(step, found.curve_mean, color=color, lw=1.8, label="curve")
    axes.plot(step, y, ".", color=_DATA, ms=2.5, alpha=0.6, label="logged")
    spread = max(float(np.ptp(y)), 1e-12)
    axes.set_ylim(y.min() - 0.2 * spread, y.max() + 0.2 * spread)
    axes.set_title(f"{name}   R² {line.r2:.2f}   weight {line.weight:.2f}", fontsize=9, loc="left", color=color)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(fontsize=7, frameon=False, loc="best", title=f"bands {level:.0%}", title_fontsize=7)


def _plot_differences(axes: Axes, comparison: Comparison) -> None:
    """Differences with their standard errors; regimes far behind are cut off, with their number as text."""
    lines = comparison.lines
    place = np.arange(len(lines))
    value = np.array([x.difference for x in lines])
    error = np.array([x.difference_se for x in lines])
    near = [abs(v) + e for v, e in zip(value, error, strict=True) if abs(v) < 15 * CLEAR]
    reach = max(2.5 * CLEAR, 1.15 * max(near, default=0.0))
    axes.axvspan(-CLEAR, CLEAR, color=_GRID, alpha=0.2, lw=0)
    axes.axvline(0, color=_GRID, lw=0.8)
    for i, x in enumerate(lines):
        color = _COLORS[i % len(_COLORS)]
        if -value[i] > reach:
            axes.annotate("", (-reach, i), (-0.9 * reach, i), arrowprops={"arrowstyle": "->", "color": color})
            axes.text(-0.88 * reach, i, f"{x.difference:.0f} ± {x.difference_se:.0f}", fontsize=8, va="center")
        else:
            axes.errorbar(value[i], i, xerr=error[i], fmt="o", color=color, ms=5, lw=1.5)
    axes.set_xlim(-1.02 * reach, max(1.2 * CLEAR, 0.15 * reach))
    axes.set_yticks(place, [x.regime for x in lines], fontsize=8)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_title("elpd less the best (± one standard error)", fontsize=9, loc="left")
    axes.set_xlabel(f"nats; below {CLEAR:g} (gray) is no difference", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
