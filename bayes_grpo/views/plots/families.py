"""Pictures of a family and of a comparison of recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.common.picture import canvas
from bayes_grpo.common.text import drawable, title_lines
from bayes_grpo.families.compared import Compared
from bayes_grpo.families.result import ROPE, Exponent, Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

POSTERIOR, _PRIOR, _DATA = "#1d4ed8", "#d1d5db", "#9ca3af"
SIDES = ("#1d4ed8", "#c2410c")
_NAMED = 12
"""Runs whose names fit into a legend."""


def plot_family(family: Family, figure: Canvas | None = None) -> Canvas:
    """Draws a family: curves of all runs over their rows, and the exponents with their priors.

    Args:
        family: The family.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (13.0, max(5.0, 0.42 * len(family.exponents) + 2.4)))
    left, right = figure.subplots(1, 2, width_ratios=(1.3, 1.0))
    _plot_runs(left, family)
    _plot_exponents(right, family.exponents)
    figure.suptitle(title_lines(family.sentence, 165, 900), fontsize=10, x=0.01, ha="left")
    return figure


def _plot_runs(axes: Axes, family: Family) -> None:
    """Runs colored by the first varied setting."""
    import matplotlib as mpl

    name = family.vary[0]
    values = sorted({run.settings[name] for run in family.runs})
    shades = mpl.colormaps["viridis"](np.linspace(0.05, 0.85, len(values)))
    seen: set[float] = set()
    for run in sorted(family.runs, key=lambda run: run.settings[name]):
        value = run.settings[name]
        color: Any = shades[values.index(value)]
        label = None if value in seen else drawable(f"{name} {value:g}", 40)
        axes.plot(run.step, run.reward, ".", ms=1.8, color=color, alpha=0.35)
        axes.plot(run.step, run.curve, color=color, lw=1.6, label=label)
        seen.add(value)
    if len(values) <= _NAMED:
        axes.legend(fontsize=8, frameon=False, loc="best")
    axes.set_xlabel("optimizer step", fontsize=9)
    axes.set_ylabel("reward" if family.signal == "reward" else "held-out reward", fontsize=9)
    axes.set_title("rows and smooth curves", fontsize=9, loc="left")
    _plain(axes)


def _plot_exponents(axes: Axes, exponents: tuple[Exponent, ...]) -> None:
    for i, e in enumerate(exponents):
        axes.plot([e.prior.low, e.prior.high], [i, i], color=_PRIOR, lw=7, solid_capstyle="butt")
        axes.plot([e.posterior.low, e.posterior.high], [i, i], color=POSTERIOR, lw=2)
        axes.plot(e.posterior.median, i, "o", color=POSTERIOR, ms=5)
    axes.axvspan(-ROPE, ROPE, color="#e5e7eb", alpha=0.6, lw=0, zorder=0)
    labels = [drawable(f"{e.words} on {e.setting.replace('_', ' ')}", 60) for e in exponents]
    axes.set_yticks(range(len(exponents)), labels, fontsize=8)
    axes.set_ylim(len(exponents) - 0.5, -0.5)
    axes.set_title(f"exponents: posterior (blue), prior (gray), {LEVEL:.0%} intervals", fontsize=9, loc="left")
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def plot_compare_runs(compared: Compared, figure: Canvas | None = None) -> Canvas:
    """Draws a comparison of two recipes: the curves of their runs, and the probability that B is better.

    Args:
        compared: The comparison.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (12.0, 4.8))
    left, right = figure.subplots(1, 2, width_ratios=(1.3, 1.0))
    for side, color in zip(("A", "B"), SIDES, strict=True):
        for i, curve in enumerate(c for c in compared.curves if c.side == side):
            left.plot(curve.step, curve.reward, ".", ms=1.8, color=color, alpha=0.35)
            left.fill_between(curve.step, curve.low, curve.high, color=color, alpha=0.15, lw=0)
            left.plot(curve.step, curve.middle, color=color, lw=1.6, label=None if i else side)
    left.set_xlabel("optimizer step", fontsize=9)
    left.set_ylabel("reward" if compared.signal == "reward" else "held-out reward", fontsize=9)
    left.legend(fontsize=8, frameon=False)
    answers = compared.parts if compared.not_comparable and compared.parts else compared.answers
    for i, a in enumerate(answers):
        right.plot([a.difference.low, a.difference.high], [i, i], color=_DATA, lw=3)
        right.plot(a.difference.median, i, "o", color="#111827", ms=5)
        right.annotate(
            f"P(B better) {probability_text(a.p_better)}",
            (a.difference.high, i),
            xytext=(6, -3),
            textcoords="offset points",
            fontsize=8,
        )
    right.axvline(0.0, color=_DATA, lw=0.8)
    right.set_yticks(range(len(answers)), [drawable(a.words, 40) for a in answers], fontsize=8)
    right.set_ylim(len(answers) - 0.5, -0.5)
    right.margins(x=0.25)
    right.set_xlabel(f"B less A, mean over seeds ({LEVEL:.0%} intervals)", fontsize=9)
    for axes in (left, right):
        _plain(axes)
    figure.suptitle(title_lines(compared.sentence, 150, 700), fontsize=10, x=0.01, ha="left")
    return figure
