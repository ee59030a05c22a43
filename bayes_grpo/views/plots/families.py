"""Pictures of a sweep and of a comparison of recipes: the curves of all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas
from bayes_grpo.common.text import drawable, title_lines
from bayes_grpo.families.compared import Compared
from bayes_grpo.families.result import Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

_SIDES = {"A": "#1d4ed8", "B": "#c2410c"}
_NAMED = 12
"""Values whose colors fit into a legend."""


def plot_family(family: Family, figure: Canvas | None = None) -> Canvas:
    """Draws the rows and the curve of every run, colored by the first varied setting.

    Args:
        family: The family.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    import matplotlib as mpl

    figure = canvas(figure, (9.2, 4.6))
    axes = figure.add_subplot()
    name = family.vary[0]
    values = sorted({run.settings[name] for run in family.runs})
    shades = dict(zip(values, mpl.colormaps["viridis"](np.linspace(0.05, 0.85, len(values))), strict=True))
    seen: set[float] = set()
    for run in sorted(family.runs, key=lambda run: run.settings[name]):
        value, (middle, low, high) = run.settings[name], run.curve
        label = None if value in seen or len(values) > _NAMED else drawable(f"{name} {value:g}", 40)
        _draw(axes, (run.step, run.reward), (low, middle, high), shades[value], label)
        seen.add(value)
    _finish(figure, axes, family.signal, family.sentence)
    return figure


def plot_compare_runs(compared: Compared, figure: Canvas | None = None) -> Canvas:
    """Draws the rows and the curves of the runs of two recipes.

    Args:
        compared: The comparison.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (9.2, 4.6))
    axes = figure.add_subplot()
    seen: set[str] = set()
    for curve in compared.curves:
        label = None if curve.side in seen else curve.side
        bands = (curve.low, curve.middle, curve.high)
        _draw(axes, (curve.step, curve.reward), bands, _SIDES[curve.side], label)
        seen.add(curve.side)
    _finish(figure, axes, compared.signal, compared.sentence)
    return figure


def _draw(axes: Axes, rows: tuple[Any, Any], bands: tuple[Any, Any, Any], color: Any, label: str | None) -> None:
    """One run: its rows, its curve and the band of that."""
    step, (low, middle, high) = rows[0], bands
    axes.plot(*rows, ".", ms=1.8, color=color, alpha=0.35)
    axes.fill_between(step, low, high, color=color, alpha=0.13, lw=0)
    axes.plot(step, middle, color=color, lw=1.6, label=label)


def _finish(figure: Canvas, axes: Axes, signal: str, sentence: str) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False, loc="best")
    axes.set_xlabel("optimizer step", fontsize=9)
    axes.set_ylabel("reward" if signal == "reward" else "held-out reward", fontsize=9)
    axes.set_title(f"every run given the others ({LEVEL:.0%} bands)", fontsize=9, loc="left")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title_lines(sentence, 120, 900), fontsize=10, x=0.01, ha="left")
