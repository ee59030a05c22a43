"""Picture of a diagnosis: the signals with their fitted trends, the onset, and when each failure was under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.common.text import drawable, title_lines
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.diagnosis.trends import LIVE, LOGARITHMIC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS: Mapping[str, str] = {
    "plateaued": "#a3c585",
    "reward_hacking": "#d97706",
    "advantage_degeneracy": "#7e57a8",
    "policy_concentration": "#0e7490",
    "dynamical_instability": "#b91c1c",
    "growing": "#15803d",
    "truncated_completions": "#9f1239",
    "apparent_gain": "#a16207",
    "lost_values": "#111827",
    "one_sided_groups": "#b45309",
    "idle_steps": "#78716c",
    "engine_gap": "#be185d",
}
"""Mode → its color, the same in every picture."""
COURSE, HELD_OUT, _DATA = "#1d4ed8", "#c2410c", "#111827"
_OTHER = "#475569"
TIMELINE_TITLE = "under way when (right: now)"
_NEAR = 3.0
"""Noise sd of a row within which it lies by its trend."""
_MISSED = 0.15
"""Distance of a first row from its trend, over the range of the rows, that a picture has to show."""
_CROWD = 1000
"""Rows from which on dots are small and faint, and pixels in a vector picture."""
_MANY_DECADES = 2.7
"""From here on a logarithmic axis is labeled at its decades alone."""
_FUNCTIONS = ("#1d4ed8", "#c2410c", "#15803d", "#7e57a8", "#0e7490")
"""Colours of single reward functions, and with them how many are shown."""
_NAMES = {
    "frac_reward_zero_std": "share of groups without spread",
    "reward_std": "reward std",
    "kl": "KL to the reference",
    "grad_norm": "gradient norm",
    "completion_length": "completion length",
    "entropy": "entropy",
}


def plot_diagnosis(result: Diagnosis, figure: Figure | None = None) -> Figure:
    """Draws a diagnosis on one page.

    What was under way when, one band a mode. Panels of the reward(s), of single reward functions and of every signal
    with the posterior trend and its band, and the onset of the likeliest failure as a shaded span.

    Args:
        result: The diagnosis.
        figure: Empty figure to draw into; one of a fitting size by default.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    from matplotlib.figure import Figure

    trends = result.trends
    fitted = {} if trends is None else dict(trends.signals)
    signals = {k: fitted[k] for k in (*_NAMES, *fitted) if k in fitted}
    functions = {} if trends is None or len(trends.components) < 2 else dict(trends.components)
    cells = 1 + bool(functions) + len(signals)
    rows = int(np.ceil(cells / 2))
    if figure is None:
        figure = Figure(figsize=(13, max(2.3 * rows, 5.6) + 0.9), layout="constrained")
    grid = figure.add_gridspec(rows, 3, width_ratios=(1, 1, 0.95))
    _plot_timeline(figure.add_subplot(grid[:, 2]), result)
    if trends is not None:
        axes = figure.add_subplot(grid[0, 0] if cells > 1 else grid[0, :2])
        name = "held-out reward" if trends.uses_eval else "train reward"
        _plot_course(axes, trends.reward, name, COURSE)
        _plot_passed_over(axes, trends.reward, name, COURSE)
        if trends.held_out is not None:
            label = f"{trends.held_out_name} reward"
            _plot_course(axes, trends.held_out, label, HELD_OUT)
            _plot_passed_over(axes, trends.held_out, label, HELD_OUT)
        axes.set_title("reward", fontsize=9, loc="left")
        axes.legend(fontsize=7, frameon=False)
        panels = [axes]
        if functions:
            panels.append(figure.add_subplot(grid[0, 1]))
            _plot_functions(panels[-1], functions)
        for i, (key, trend) in enumerate(signals.items(), len(panels)):
            axes = figure.add_subplot(grid[i // 2, i % 2])
            name = _NAMES.get(key, key.replace("_", " "))
            if key in LIVE and trend.rows < np.isfinite(trends.run.signals[key]).sum():
                name += " (rows of 0 left out)"
            _plot_course(axes, trend, name, COURSE, exponential=key in LOGARITHMIC)
            axes.set_title(name, fontsize=9, loc="left")
            panels.append(axes)
        _same_steps(panels)
        _mark_onset(panels, result)
    figure.suptitle(title_lines(result.sentence, 150), fontsize=9.5, x=0.01, ha="left")
    return figure


def _plot_course(axes: Axes, trend: Trend, label: str, color: str, exponential: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    shown = np.exp if exponential else np.asarray
    low, middle, high = np.quantile(trend.draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0)
    values = shown(trend.raw)
    size, alpha = (3.0, 0.45) if trend.rows < _CROWD else (1.2, 0.25)
    dots = color if color == HELD_OUT else _DATA
    axes.plot(trend.raw_step, values, ".", color=dots, ms=size, alpha=alpha, rasterized=trend.rows >= _CROWD)
    axes.fill_between(trend.step, shown(low), shown(high), color=color, alpha=0.25, lw=0)
    axes.plot(trend.step, shown(middle), color=color, lw=1.5, label=f"{label}, trend with {LEVEL:.0%} band", zorder=3)
    if exponential and values.min() > 0 and values.max() / values.min() > 20:
        _logarithmic(axes, float(np.log10(values.max() / values.min())))
    elif not exponential or axes.get_yscale() == "linear":
        axes.ticklabel_format(axis="y", useOffset=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=7)
    axes.set_xlabel("optimizer step", fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _plot_functions(axes: Axes, functions: Mapping[str, Trend]) -> None:
    """Courses of single reward functions: those that moved most, in colors of their own."""
    from matplotlib.ticker import MaxNLocator

    moved = sorted(functions, key=lambda name: -abs(float(functions[name].change().mean())))[: len(_FUNCTIONS)]
    for name, color in zip(moved, _FUNCTIONS, strict=False):
        trend = functions[name]
        low, middle, high = np.quantile(trend.draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0)
        axes.fill_between(trend.step, low, high, color=color, alpha=0.2, lw=0)
        # A legend passes over names that begin with "_".
        axes.plot(trend.step, middle, color=color, lw=1.4, label=drawable(name, 32).lstrip("_"))
    axes.set_title("reward functions", fontsize=9, loc="left")
    axes.set_xlabel("optimizer step", fontsize=7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False)


def _plot_passed_over(axes: Axes, trend: Trend, label: str, color: str) -> None:
    """Joins the first rows where the trend passes over them: what happened there is seen in the rows alone."""
    rows = passed_over(trend)
    if rows:
        axes.plot(trend.raw_step[:rows], trend.raw[:rows], ":", color=color, lw=1.2, label=f"{label}, its first rows")


def passed_over(trend: Trend) -> int:
    """How many first rows a robust trend passes over, as it does where a run is lost within a few rows; mostly 0.

    They end with the first two rows that lie by the trend, and are a quarter of the log at most.
    """
    away = trend.raw - np.interp(trend.raw_step, trend.step, trend.mean)
    near = np.abs(away) < _NEAR * trend.noise_sd
    found = np.flatnonzero(near[:-1] & near[1:])
    first = int(found[0]) if len(found) else 0
    seen = np.abs(away[:first]).max(initial=0.0) > _MISSED * np.ptp(trend.raw)
    return first + 1 if seen and first <= max(len(near) // 4, 2) else 0


def _logarithmic(axes: Axes, decades: float) -> None:
    """A logarithmic axis whose labels are few and short enough for a small panel: 1, 2, 5 or the decades alone."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < _MANY_DECADES else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _same_steps(panels: list[Axes]) -> None:
    """All panels from the first step of any to the last, also where a signal lacks rows."""
    low, high = np.array([axes.get_xlim() for axes in panels]).T
    for axes in panels:
        axes.set_xlim(low.min(), high.max())


def _mark_onset(panels: list[Axes], result: Diagnosis) -> None:
    if not result.onsets:
        return
    mode = max(result.onsets, key=lambda m: result.probability[m])
    step, color = result.onsets[mode].step, COLORS.get(mode, _OTHER)
    for axes in panels:
        axes.axvspan(step.low, max(step.high, step.low + 1e-9), color=color, alpha=0.10, lw=0)
        axes.axvline(step.median, color=color, lw=1.0, ls="--")
    panels[0].set_title(f"reward; dashed: onset of {label_of(mode)} ({step.level:.0%})", fontsize=9, loc="left")


def _plot_timeline(axes: Axes, result: Diagnosis) -> None:
    """One band a mode: the darker, the more probable that it is under way; hatched where the log cannot show it."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    shown = [] if result.timeline is None else list(result.timeline.modes.values())
    for place, mode in enumerate(reversed(shown)):
        step = result.timeline.step if result.timeline is not None else np.empty(0)
        edges = np.concatenate([[step[0]], 0.5 * (step[1:] + step[:-1]), [step[-1]]])
        color = COLORS.get(mode.mode, _OTHER)
        if mode.seen:
            shades = LinearSegmentedColormap.from_list(mode.mode, ["#ffffff", color])
            axes.pcolormesh(edges, [place - 0.36, place + 0.36], mode.probability[None, :], cmap=shades, vmin=0, vmax=1)
        else:
            axes.barh(
                place, np.ptp(step), left=step[0], height=0.72, color="none", edgecolor="#c4c8cf", hatch="////", lw=0
            )
        axes.text(1.02, place, probability_text(mode.under_way) if mode.seen else "not shown", va="center", fontsize=7,
                  transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set_yticks(range(len(shown)), [label_of(m.mode) for m in reversed(shown)], fontsize=7.5)
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("optimizer step", fontsize=7)
    axes.set_title(TIMELINE_TITLE, fontsize=9, loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)
