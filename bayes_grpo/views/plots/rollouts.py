"""Picture of rollouts: what the gain is made of over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.picture import canvas
from bayes_grpo.common.text import drawable, title_lines
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.summary import RolloutSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

PART_COLORS = {"finished": "#0f766e", "formatted": "#a16207", "quality": "#1d4ed8", "others": "#9ca3af"}
_MORE = ("#1d4ed8", "#a16207", "#0f766e", "#7c3aed", "#be123c", "#4d7c0f", "#0e7490", "#9ca3af")


def plot_rollouts(summary: RolloutSummary, figure: Canvas | None = None) -> Canvas:
    """Draws the parts of the gain as areas, and their values, over the steps.

    Args:
        summary: The summary.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    gain = summary.gain if summary.gain is not None and summary.gain.course.changes else None
    figure = canvas(figure, (10.4, 4.4))
    axes = figure.subplots(1, 2)
    if gain is not None:
        _areas(axes[0], gain)
        _values(axes[1], gain)
    else:
        axes[0].text(0.5, 0.5, "nothing tells what the reward is made of", ha="center", va="center", fontsize=9)
        for empty in axes:
            empty.set_axis_off()
    figure.suptitle(title_lines(summary.sentence, 110, 500), fontsize=9, x=0.01, ha="left")
    return figure


def _areas(axes: Axes, gain: Decomposition) -> None:
    """What each factor has added to the reward, stacked upwards where it added and downwards where it took."""
    course, words, colors = gain.course, _words(gain), _colors(gain)
    start = gain.before.median
    up, down = np.full(len(course.step), start), np.full(len(course.step), start)
    for name, change in course.changes.items():
        if not np.any(np.abs(change) > 1e-9):
            continue
        for sign, base in ((1.0, up), (-1.0, down)):
            part = sign * np.maximum(sign * change, 0.0)
            label = words.get(name, name) if sign > 0 else None
            axes.fill_between(course.step, base, base + part, color=colors[name], alpha=0.6, linewidth=0, label=label)
            base += part
    axes.plot(course.step, course.reward, color="black", linewidth=1.5, label="mean reward")
    axes.axhline(start, color="black", linewidth=0.6, linestyle=":")
    axes.set_title("what the gain is made of", fontsize=9, loc="left")
    axes.set_ylabel("reward", fontsize=9)
    _finish(axes)


def _values(axes: Axes, gain: Decomposition) -> None:
    course, words, colors = gain.course, _words(gain), _colors(gain)
    for name, values in course.values.items():
        if name in words:
            axes.plot(course.step, values, ".-", color=colors[name], linewidth=1.2, label=words[name])
    for share in gain.shares:
        for side, (low, high) in ((share.before, gain.first), (share.after, gain.last)):
            axes.fill_between([low, high], side.low, side.high, color=colors[share.name], alpha=0.15, linewidth=0)
    axes.set_title("its factors or parts, with 90% bands of first and last steps", fontsize=9, loc="left")
    _finish(axes)


def _words(gain: Decomposition) -> dict[str, str]:
    return {s.name: drawable(s.words, 40) for s in gain.shares}


def _colors(gain: Decomposition) -> dict[str, str]:
    return {name: PART_COLORS.get(name, _MORE[i % len(_MORE)]) for i, name in enumerate(gain.course.changes)}


def _finish(axes: Axes) -> None:
    axes.set_xlabel("step", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=7.5, frameon=False, loc="best")
