"""Figures of several runs: a sweep, two recipes compared, many logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL, band
from bayes_grpo.common.picture import headline, legend_below, one_panel
from bayes_grpo.common.results import reward_words
from bayes_grpo.common.text import drawable
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.series import RewardLevels
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
    """Draws the rows and the curve of every run, colored by the first varied setting."""
    import matplotlib as mpl

    figure, axes = one_panel(figure, (9.2, 4.6), "rows and smooth curves", reward_words(family.signal))
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
    _legend(figure, axes)
    headline(figure, family.sentence, limit=900)
    return figure


def plot_compare_runs(compared: Compared, figure: Canvas | None = None) -> Canvas:
    """Draws rows and curves of the runs of two recipes; the legend has the levels and the status of each run."""
    title = f"rows and underlying rewards ({LEVEL:.0%} bands), A blue and B orange"
    figure, axes = one_panel(figure, (9.2, 5.2), title, reward_words(compared.signal))
    readings = [x for of_recipe in compared.readings.values() for x in of_recipe]
    for i, (run, reading) in enumerate(zip(compared.runs, readings, strict=True)):
        color = _SIDES[run.recipe]
        step = reading.table.step
        low, middle, high = band(reading.latent)
        label = f"{run.recipe}, {_with_levels(run.name, run.levels)}, {run.status.status}" if i < _NAMED else None
        axes.plot(step, reading.table.y, ".", ms=1.8, color=color, alpha=0.35)
        axes.fill_between(step, low, high, color=color, alpha=0.13, lw=0)
        axes.plot(step, middle, color=color, lw=1.6, label=label)
    _legend(figure, axes)
    headline(figure, compared.sentence, limit=900)
    return figure


def plot_runs(runs: Sequence[Run], figure: Canvas | None = None) -> Canvas:
    """Draws the smoothed rewards of several runs in one figure: train reward solid, evaluation reward dashed.

    The legend has first, last and best level of each reward, for up to 12 runs.

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
    figure, axes = one_panel(figure, (9.2, 5.2), "smoothed rewards: train solid, evaluation dashed", "reward")
    for i, ((run, paths), shade) in enumerate(zip(drawn, shades, strict=False)):
        for kind, path in _rewards_of(paths).items():
            train = kind == "train"
            if train:
                axes.plot(path.logged.step, path.logged.value, ".", ms=1.5, color=shade, alpha=0.25)
            label = _with_levels(f"{run.name}, {kind}", path.display_levels) if i < _NAMED else None
            curve = np.median(path.draws, axis=0)
            axes.plot(path.step, curve, "-" if train else "--", color=shade, lw=1.6, label=label)
    _legend(figure, axes)
    return figure


def _with_levels(name: str, levels: RewardLevels) -> str:
    """The name of a reward with its first, last and best level, for a legend."""
    best = f"best {levels.best:.3g} at step {levels.best_step:g}"
    return drawable(f"{drawable(name, 40)}: {levels.first:.3g} to {levels.last:.3g}, {best}", 120)


def _rewards_of(paths: RunPaths) -> dict[str, SignalPath]:
    """Kind of a reward, "train", "evaluation" or "gold" → its path."""
    found = {"evaluation" if paths.uses_eval else "train": paths.reward}
    return found if paths.held_out is None else found | {paths.held_out_name: paths.held_out}


def _legend(figure: Canvas, axes: Axes) -> None:
    """The legend of what has a name, if anything has."""
    if axes.get_legend_handles_labels()[0]:
        legend_below(figure, axes)
