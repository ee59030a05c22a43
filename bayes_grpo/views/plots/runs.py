"""Figures of several runs: a sweep, two recipes compared, many logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas, headline, one_panel
from bayes_grpo.common.results import reward_words
from bayes_grpo.common.text import drawable
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.levels import RewardLevels
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.run_paths import RunPaths

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas
    from bayes_grpo.families.compare_runs import Compared
    from bayes_grpo.families.result import Sweep

_SIDES = {"A": "#1d4ed8", "B": "#c2410c"}
_NAMED = 12
"""Values whose colors fit into a legend."""
_DISTINCT = 10
"""Runs up to which each has a color that is not the next one's neighbor."""


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
    """Draws the rows and the curves of the runs of two recipes, and first, last and best level of each run below.

    Args:
        compared: The comparison.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    listed = compared.runs[:_NAMED]
    figure, axes, below = _with_room_below(figure, len(listed))
    tail = (1.0 - LEVEL) / 2.0
    for side, reading in ((side, x) for side, readings in compared.readings.items() for x in readings):
        color = _SIDES[side]
        step = reading.table.step
        low, middle, high = np.quantile(reading.latent, [tail, 0.5, 1.0 - tail], axis=0)
        axes.plot(step, reading.table.y, ".", ms=1.8, color=color, alpha=0.35)
        axes.fill_between(step, low, high, color=color, alpha=0.13, lw=0)
        axes.plot(step, middle, color=color, lw=1.6, label=side if reading is compared.readings[side][0] else None)
    axes.set_title(f"rows and underlying rewards ({LEVEL:.0%} bands)", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    _finish(figure, axes, compared.signal, compared.sentence)
    heads = ("run", "recipe", "first", "last", "best", "at step", "status")
    lines = [(drawable(run.name, 40), run.recipe, *_levels_text(run.levels), run.status.status) for run in listed]
    _draw_table(below, heads, lines, [_SIDES[run.recipe] for run in listed])
    return figure


def plot_runs(runs: Sequence[Run], figure: Canvas | None = None) -> Canvas:
    """Draws the smoothed rewards of several runs in one figure: train reward solid, evaluation reward dashed.

    Below the curves stand first, last and best level of each of them, for up to 12 runs.

    Args:
        runs: The runs; those without two rewards are left out.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    import matplotlib as mpl

    drawn = [(run, paths) for run in runs if (paths := RunPaths.of(run)) is not None]
    few = len(drawn) <= _DISTINCT
    shades = (
        mpl.colormaps["tab10"](range(_DISTINCT)) if few else mpl.colormaps["viridis"](np.linspace(0, 0.8, len(drawn)))
    )
    by_run = [_curves(run, paths, shade) for (run, paths), shade in zip(drawn, shades, strict=False)]
    lines = [curve for curves in by_run[:_NAMED] for curve in curves]
    figure, axes, below = _with_room_below(figure, len(lines))
    for curve in (curve for curves in by_run for curve in curves):
        path, color = curve.path, curve.color
        if curve.train:
            axes.plot(path.logged.step, path.logged.value, ".", ms=1.5, color=color, alpha=0.25)
        axes.plot(path.step, np.median(path.draws, axis=0), "-" if curve.train else "--", color=color, lw=1.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("smoothed rewards: train solid, evaluation dashed", fontsize=9, loc="left")
    axes.set_xlabel("optimizer step", fontsize=9)
    axes.set_ylabel("reward", fontsize=9)
    axes.tick_params(labelsize=8)
    if lines:
        heads = ("run", "reward", "first", "last", "best", "at step")
        _draw_table(below, heads, [curve.cells for curve in lines], [curve.color for curve in lines])
    return figure


def _with_room_below(figure: Canvas | None, lines: int) -> tuple[Canvas, Axes, Axes]:
    """A figure, the axes of its curves, and those below them for a table of so many lines."""
    room = 0.24 * (lines + 1)
    figure = canvas(figure, (9.2, 4.4 + room))
    axes, below = figure.subplots(2, 1, gridspec_kw={"height_ratios": [4.0, room]})
    below.set_axis_off()
    return figure, axes, below


def _levels_text(levels: RewardLevels) -> list[str]:
    """First, last and best level of a reward, and the step of the best."""
    return [*(f"{value:.3g}" for value in levels[:3]), f"{levels.best_step:g}"]


class _Curve(NamedTuple):
    """A smoothed reward of a run.

    Attributes:
        name: The run.
        kind: "train", "evaluation" or "gold".
        path: Its path.
        color: Color of the run.
    """

    name: str
    kind: str
    path: SignalPath
    color: Any

    @property
    def train(self) -> bool:
        """Whether it is a train reward."""
        return self.kind == "train"

    @property
    def cells(self) -> list[str]:
        """Run, kind, first, last and best level, and the step of the best."""
        return [drawable(self.name, 40), self.kind, *_levels_text(self.path.shown_levels)]


def _curves(run: Run, paths: RunPaths, color: Any) -> list[_Curve]:
    found = [_Curve(run.name, "evaluation" if paths.uses_eval else "train", paths.reward, color)]
    if paths.held_out is not None:
        found.append(_Curve(run.name, paths.held_out_name, paths.held_out, color))
    return found


def _draw_table(axes: Axes, heads: Sequence[str], lines: Sequence[Sequence[str]], colors: Sequence[Any]) -> None:
    """A line a run, its name in its color."""
    from matplotlib.transforms import Bbox

    made = axes.table(
        cellText=[list(line) for line in lines],
        colLabels=list(heads),
        colWidths=[0.4, *[0.6 / (len(heads) - 1)] * (len(heads) - 1)],
        cellLoc="left",
        bbox=Bbox.unit(),
        edges="horizontal",
    )
    made.auto_set_font_size(False)
    made.set_fontsize(8)
    for (row, column), cell in made.get_celld().items():
        cell.set_linewidth(0.4)
        if row and not column:
            cell.set_text_props(color=colors[row - 1], weight="bold")


def _finish(figure: Canvas, axes: Axes, signal: str, sentence: str) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False, loc="best")
    axes.set_xlabel("optimizer step", fontsize=9)
    axes.set_ylabel(reward_words(signal), fontsize=9)
    axes.tick_params(labelsize=8)
    headline(figure, sentence, limit=900)
