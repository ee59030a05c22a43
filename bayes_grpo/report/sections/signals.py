"""Everything that was logged of several runs, each signal with all runs on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.text import drawable
from bayes_grpo.report.page import Picture, Section
from bayes_grpo.report.sections.common import SMALL, new_figure, nothing, panels
from bayes_grpo.report.sections.together import LINES, RUN_COLOURS, OneOf
from bayes_grpo.report.svg import Pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEY, TITLE, QUESTION = "signals", "The signals", "How do their other signals move beside each other?"
_MOST = 12
"""Signals that are drawn: those that most runs have first."""
_SMOOTHED = 20
"""A line is the mean over this share of its rows, so that lines of several runs can be told apart."""


def signals(runs: Sequence[OneOf], pictures: Pictures) -> Section:
    """The section with one panel a signal that two runs or more have."""
    having = {name: [x for x in runs if name in x.run.signals] for x in runs for name in x.run.signals}
    if any(x.run.has_eval for x in runs):
        having["held_out_reward"] = [x for x in runs if x.run.has_eval]
    shared = sorted((name for name, some in having.items() if len(some) > 1), key=lambda name: -len(having[name]))
    if not shared:
        return nothing(KEY, TITLE, QUESTION, "no two runs have a signal beside the reward in common")
    lonely = sorted(name.replace("_", " ") for name, some in having.items() if len(some) == 1)
    left = f" Only one run has {', '.join(lonely[:_MOST])}." if lonely else ""
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=f"{len(shared)} signals that two runs or more have, each a mean over near rows.{left}",
        pictures=_pictures(runs, shared[:_MOST], pictures),
    )


def _pictures(runs: Sequence[OneOf], names: Sequence[str], pictures: Pictures) -> tuple[Picture, ...]:
    figure = new_figure((SMALL[0], SMALL[1] * len(names)))
    told = []
    for i, name in enumerate(names):
        axes = figure.add_subplot(len(names), 1, i + 1)
        for k, x in enumerate(runs):
            _draw(axes, x, name, RUN_COLOURS[k % len(RUN_COLOURS)], LINES[(k // len(RUN_COLOURS) + k) % len(LINES)])
        words = name.replace("_", " ")
        axes.set_title(words, loc="left")
        axes.set_xlabel("optimizer step", fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        if i == 0:
            axes.legend(loc="best", fontsize=7, frameon=False)
        told.append((i, f"{words.capitalize()} of the runs, by optimizer step", ""))
    return panels(pictures, figure, told)


def _draw(axes: Axes, x: OneOf, name: str, colour: str, line: str) -> None:
    run = x.run
    if name == "held_out_reward":
        step, values = run.eval_step, run.eval_reward
    else:
        step, values = run.step, run.signals.get(name)
    if values is None:
        return
    known = np.isfinite(values)
    step, values = step[known], values[known]
    if not len(values):
        return
    width = max(1, len(values) // _SMOOTHED)
    weight = np.convolve(np.ones(len(values)), np.ones(width), "same")
    mean = np.convolve(values, np.ones(width), "same") / weight
    axes.plot(step, mean, color=colour, lw=1.2, ls=line, label=drawable(x.name, 24).lstrip("_"))
