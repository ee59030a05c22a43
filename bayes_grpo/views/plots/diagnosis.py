"""The picture of a diagnosis: rewards and signals with their fitted trends, and the onset of the likeliest failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo.common.intervals import LEVEL, band
from bayes_grpo.common.picture import canvas, headline, one_panel
from bayes_grpo.common.text import drawable
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.wording import label_of
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.run_paths import LIVE, RunPaths

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

_TREND = "#1d4ed8"
_HELD_OUT = "#c2410c"
_DATA = "#111827"
_ONSET = "#b91c1c"
_RESUME = "#7e22ce"
_CROWD = 1000
"""Rows from which on dots are small and faint, and pixels in a vector picture."""
_MANY_DECADES = 2.7
"""From here on a logarithmic axis is labeled at its decades alone."""
_FUNCTIONS = 4
"""Single reward functions that are drawn: those that moved most."""
_NAMES = {
    "frac_reward_zero_std": "share of zero-variance groups",
    "reward_std": "reward std",
    "kl": "KL to the reference",
    "grad_norm": "gradient norm",
    "completion_length": "completion length",
    "entropy": "entropy",
}


class _Line(NamedTuple):
    """A trend in a panel."""

    label: str
    trend: SignalPath
    color: str = _TREND


def plot_diagnosis(result: Diagnosis, figure: Canvas | None = None) -> Canvas:
    """Draws a diagnosis: a panel for the rewards, each reward function and each signal, with its trend and band.

    The onset of a probable failure is a dashed line in its interval, a resume a dotted one.

    Args:
        result: The diagnosis.
        figure: Empty figure, or part of one, to draw on; one of a fitting size if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    panels = {} if result.paths is None else _panels(result.paths)
    columns = min(len(panels), 2) or 1
    rows = -(-len(panels) // columns) or 1
    figure = canvas(figure, (11, 2.3 * max(rows, 2) + 0.7))
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    for axes, (title, lines) in zip(grid, panels.items(), strict=False):
        for line in lines:
            _draw(axes, line)
        axes.set_title(title, fontsize=9, loc="left")
        if len(lines) > 1:
            axes.legend(fontsize=7, frameon=False)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    if result.paths is not None:
        _mark(list(grid[: len(panels)]), result, result.paths.run.resumes)
    headline(figure, result.sentence, 130, size=9.5)
    return figure


def plot_part(trend: SignalPath, title: str, falls_since: float | None = None, figure: Canvas | None = None) -> Canvas:
    """Draws a reward function or environment with its trend; a dotted line marks the step since which it falls."""
    figure, axes = one_panel(figure, (3.7, 2.4))
    _draw(axes, _Line(title, trend))
    if falls_since is not None:
        axes.axvline(falls_since, color=_ONSET, lw=1.1, ls=":")
        title = f"{title}, falls since step {falls_since:.0f}"
    axes.set_title(drawable(title, 60), fontsize=9, loc="left")
    return figure


def _panels(paths: RunPaths) -> dict[str, list[_Line]]:
    """Title of a panel → its trends."""
    rewards = [_Line("train reward" if paths.run.has_reward else "evaluation reward", paths.reward)]
    if paths.held_out is not None:
        rewards.append(_Line(f"{paths.held_out_name} reward", paths.held_out, _HELD_OUT))
    panels = {"reward": rewards}
    for kind, functions in (("reward function", paths.components), ("environment", paths.environments)):
        moved = sorted(functions, key=lambda name: -abs(float(functions[name].change().mean())))
        for name in moved[:_FUNCTIONS] if len(functions) > 1 else ():
            panels[f"{kind} {drawable(name, 32)}"] = [_Line(name, functions[name])]
    for key in (*(k for k in _NAMES if k in paths.signals), *(k for k in paths.signals if k not in _NAMES)):
        trend = paths.signals[key]
        title = _NAMES.get(key, key.replace("_", " "))
        if key in LIVE and trend.logged.rows < np.isfinite(paths.run.signals[key]).sum():
            title += " (rows without variance left out)"
        panels[title] = [_Line(title, trend)]
    return panels


def _draw(axes: Axes, line: _Line) -> None:
    from matplotlib.ticker import MaxNLocator

    trend = line.trend
    low, middle, high = band(trend.draws)
    step, values = trend.logged.step, trend.logged.value
    many = len(step) >= _CROWD
    dots = line.color if line.color == _HELD_OUT else _DATA
    axes.plot(step, values, ".", color=dots, ms=1.2 if many else 3.0, alpha=0.25 if many else 0.45, rasterized=many)
    axes.fill_between(trend.step, low, high, color=line.color, alpha=0.25, lw=0)
    label = f"{line.label}, trend with {LEVEL:.0%} band"
    axes.plot(trend.step, middle, color=line.color, lw=1.5, label=label, zorder=3)
    if trend.unit == "factor" and values.min() > 0 and values.max() / values.min() > 20:
        _logarithmic(axes, float(np.log10(values.max() / values.min())))
    elif axes.get_yscale() == "linear":
        axes.ticklabel_format(axis="y", useOffset=False)
    if np.ptp(values) == 0.0:  # else the axis shows a band of rounding errors
        axes.set_ylim(values[0] - 0.5, values[0] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=7, labelbottom=True)
    axes.set_xlabel("optimizer step", fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _logarithmic(axes: Axes, decades: float) -> None:
    """A logarithmic axis whose labels are few and short enough for a small panel: 1, 2, 5 or the decades alone."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < _MANY_DECADES else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _mark(panels: list[Axes], result: Diagnosis, resumes: tuple[float, ...]) -> None:
    """The onset of the likeliest failure, where it is probable, and the resumes."""
    title = "reward"
    mode = max(result.onsets, key=result.probability.__getitem__, default="")
    if mode and result.probability[mode] >= 0.5:
        step = result.onsets[mode].step
        title += f"; dashed: onset of {label_of(mode)} ({step.level:.0%})"
        for axes in panels:
            axes.axvspan(step.low, max(step.high, step.low + 1e-9), color=_ONSET, alpha=0.10, lw=0)
            axes.axvline(step.median, color=_ONSET, lw=1.0, ls="--")
    if resumes:
        title += f"; dotted: resumed at step {', '.join(f'{step:g}' for step in resumes[:3])}"
    for axes in panels:
        for step in resumes:
            axes.axvline(step, color=_RESUME, lw=1.2, ls=":")
    panels[0].set_title(title, fontsize=9, loc="left")
