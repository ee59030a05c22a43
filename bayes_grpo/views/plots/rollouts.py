"""The picture of rollouts: what the gain is made of over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.picture import headline, one_panel
from bayes_grpo.common.text import drawable
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.summary import RolloutSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

_COLORS = {"finished": "#0f766e", "formatted": "#a16207", "quality": "#1d4ed8", "others": "#9ca3af"}
_MORE = ("#1d4ed8", "#a16207", "#0f766e", "#7c3aed", "#be123c", "#4d7c0f", "#0e7490", "#9ca3af")


def plot_rollouts(summary: RolloutSummary, figure: Canvas | None = None) -> Canvas:
    """Draws what each part has added to the reward, stacked upwards where it added and downwards where it took."""
    figure, axes = one_panel(figure, (9.2, 4.4), vertical="reward")
    if summary.gain is not None and summary.gain.course.changes:
        _draw_areas(axes, summary.gain)
    else:
        axes.text(0.5, 0.5, "No column says what the reward is made of.", ha="center", va="center", fontsize=9)
        axes.set_axis_off()
    headline(figure, summary.sentence, 110, 500, 9)
    return figure


def _draw_areas(axes: Axes, gain: Decomposition) -> None:
    course = gain.course
    words = {s.name: drawable(s.words, 40) for s in gain.shares}
    start = gain.before.median
    up, down = np.full(len(course.step), start), np.full(len(course.step), start)
    for i, (name, change) in enumerate(course.changes.items()):
        if not np.any(np.abs(change) > 1e-9):
            continue
        color = _COLORS.get(name, _MORE[i % len(_MORE)])
        for sign, base in ((1.0, up), (-1.0, down)):
            part = sign * np.maximum(sign * change, 0.0)
            label = words.get(name, name) if sign > 0 else None
            axes.fill_between(course.step, base, base + part, color=color, alpha=0.6, linewidth=0, label=label)
            base += part
    axes.plot(course.step, course.reward, color="black", linewidth=1.5, label="mean reward")
    axes.axhline(start, color="black", linewidth=0.6, linestyle=":")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=7.5, frameon=False, loc="best")
