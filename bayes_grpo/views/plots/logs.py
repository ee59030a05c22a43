"""Pictures of a log: the rewards and every signal that has values, by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.picture import canvas, one_panel
from bayes_grpo.common.text import drawable
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

_PANEL_WIDTH, _PANEL_HEIGHT = 9.0, 2.2


def plot_run(run: RunLike, figure: Canvas | None = None) -> Canvas:
    """Draws the reward, the evaluation reward and every signal over the steps, one panel each.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        figure: Empty figure to draw into; one of a fitting size by default.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    run = as_run(run)
    names = [name for name, values in run.signals.items() if np.isfinite(values).any()]
    panels = 1 + len(names)
    figure = canvas(figure, (_PANEL_WIDTH, _PANEL_HEIGHT * panels + 0.6))
    axes = figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
    _draw(axes[0], run.step, run.reward, "train")
    if run.has_eval:
        axes[0].plot(run.eval_step, run.eval_reward, "s", color="C1", markersize=4, label="evaluation")
        axes[0].legend(loc="best", fontsize="small")
    axes[0].set_ylabel("reward")
    axes[0].set_title(drawable(run.name), fontsize="medium")
    for axis, name in zip(axes[1:], names, strict=True):
        _draw(axis, run.step, run.signals[name], name)
        axis.set_ylabel(name, fontsize="small")
    axes[-1].set_xlabel("step")
    return figure


def plot_signal(run: Run, name: str, figure: Canvas | None = None) -> Canvas:
    """Draws one signal of a run as logged."""
    figure, axes = one_panel(figure, (3.6, 2.4), name.replace("_", " "))
    _draw(axes, run.step, run.signals[name], name)
    return figure


def _draw(axis: Axes, step: np.ndarray, values: np.ndarray, label: str) -> None:
    shown = np.isfinite(values)
    axis.plot(step[shown], values[shown], ".-", color="C0", markersize=3, linewidth=0.8, label=label)
    axis.grid(alpha=0.3)
