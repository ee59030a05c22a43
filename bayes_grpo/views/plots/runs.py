"""Figures of a sweep and of two recipes compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import headline, one_panel
from bayes_grpo.common.results import reward_words
from bayes_grpo.common.text import drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas
    from bayes_grpo.families.compare_runs import Compared
    from bayes_grpo.families.result import Sweep

_SIDES = {"A": "#1d4ed8", "B": "#c2410c"}
_NAMED = 12
"""Values whose colors fit into a legend."""


def plot_sweep(family: Sweep, figure: Canvas | None = None) -> Canvas:
    """Draws the rows and the curve of every run, colored by the first varied setting.

    Args:
        family: The family.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    import matplotlib as mpl

    figure, axes = one_panel(figure, (9.2, 4.6))
    name = family.vary[0]
    values = sorted({run.settings[name] for run in family.runs})
    shades = dict(zip(values, mpl.colormaps["viridis"](np.linspace(0.05, 0.85, len(values))), strict=True))
    seen: set[float] = set()
    for run in sorted(family.runs, key=lambda run: run.settings[name]):
        value = run.settings[name]
        label = None if value in seen or len(values) > _NAMED else drawable(f"{name} {value:g}", 40)
        axes.plot(run.step, run.reward, ".", ms=1.8, color=shades[value], alpha=0.35)
        axes.plot(run.step, run.curve, color=shades[value], lw=1.6, label=label)
        seen.add(value)
    axes.set_title("rows and smooth curves", fontsize=9, loc="left")
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
    figure, axes = one_panel(figure, (9.2, 4.6))
    tail = (1.0 - LEVEL) / 2.0
    for side, reading in ((side, x) for side, readings in compared.readings.items() for x in readings):
        color, step = _SIDES[side], reading.table.step
        low, middle, high = np.quantile(reading.latent, [tail, 0.5, 1.0 - tail], axis=0)
        axes.plot(step, reading.table.y, ".", ms=1.8, color=color, alpha=0.35)
        axes.fill_between(step, low, high, color=color, alpha=0.13, lw=0)
        axes.plot(step, middle, color=color, lw=1.6, label=side if reading is compared.readings[side][0] else None)
    axes.set_title(f"rows and underlying rewards ({LEVEL:.0%} bands)", fontsize=9, loc="left")
    _finish(figure, axes, compared.signal, compared.sentence)
    return figure


def _finish(figure: Canvas, axes: Axes, signal: str, sentence: str) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False, loc="best")
    axes.set_xlabel("optimizer step", fontsize=9)
    axes.set_ylabel(reward_words(signal), fontsize=9)
    axes.tick_params(labelsize=8)
    headline(figure, sentence, limit=900)
