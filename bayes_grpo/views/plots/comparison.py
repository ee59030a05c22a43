"""The picture of a comparison: the curve of every regime on the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.picture import headline, legend_below, one_panel
from bayes_grpo.comparison.result import Comparison

if TYPE_CHECKING:
    from bayes_grpo.common.picture import Canvas

_COLORS = (
    "#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#0891b2", "#db2777", "#a16207", "#4d7c0f", "#475569", "#111827",
)  # fmt: skip


def plot_comparison(comparison: Comparison, figure: Canvas | None = None) -> Canvas:
    """Draws the logged rows and the mean curve of every regime; those that predict worse are dotted.

    Args:
        comparison: The comparison.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure, axes = one_panel(figure, (9.2, 4.6))
    table = next(iter(comparison.posteriors.values())).draws.rows
    step, y = table.step, table.y
    axes.plot(step, y, ".", color="#111827", ms=3, alpha=0.5, label="logged")
    for i, line in enumerate(comparison.table):
        worse = "worse" in (line.verdict, line.verdict_ahead)
        label = f"{line.regime}, R² {line.r2:.2f}" + (" (worse)" if worse else "")
        curve = comparison.posteriors[line.regime].curve_mean
        axes.plot(step, curve, ":" if worse else "-", color=_COLORS[i % len(_COLORS)], lw=1.5, label=label)
    spread = max(float(np.ptp(y)), 1e-12)
    axes.set_ylim(y.min() - 0.2 * spread, y.max() + 0.2 * spread)
    axes.set_xlabel("optimizer step")
    axes.set_ylabel(comparison.about.reward)
    legend_below(figure, axes)
    headline(figure, f"{comparison.about.run}: {comparison.sentence}")
    return figure
