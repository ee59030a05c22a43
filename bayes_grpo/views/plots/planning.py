"""The picture of a plan: expected reward against cost for the best few candidates and the present settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas
from bayes_grpo.common.text import drawable, title_lines
from bayes_grpo.planning.planned import WORDS, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bayes_grpo.common.picture import Canvas

_COLORS = ("#1d4ed8", "#0f766e", "#9333ea")
_PRESENT = "#6b7280"


def plot_plan(plan: Plan, figure: Canvas | None = None) -> Canvas:
    """Draws the expected reward of the best candidates, and of the present settings, over the cost of a run.

    Args:
        plan: The plan.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (9.2, 4.6))
    axes = figure.add_subplot()
    *best, present = plan.courses
    known = [(c, color, label(c.settings, plan.present)) for c, color in zip(best, _COLORS, strict=False)]
    for course, color, name in (*known, (present, _PRESENT, "present settings")):
        axes.fill_between(course.cost, course.low, course.high, color=color, alpha=0.12, lw=0)
        axes.plot(course.cost, course.mean, color=color, lw=1.8, label=drawable(name, 60))
    axes.axvline(plan.budget, color=_PRESENT, lw=0.8, ls=":")
    axes.set_xlabel("cost of the run, steps of the present run", fontsize=9)
    axes.set_ylabel("reward" if plan.signal == "reward" else "held-out reward", fontsize=9)
    axes.set_title(f"expected reward at the end of a run ({LEVEL:.0%} bands, mean over seeds)", fontsize=9, loc="left")
    axes.legend(fontsize=8, frameon=False, loc="best")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title_lines(plan.sentence, 120, 900), fontsize=10, x=0.01, ha="left")
    return figure


def label(settings: Mapping[str, float], present: Mapping[str, float]) -> str:
    """What settings change, in few words."""
    moved = [f"{WORDS[name]} {value:g}" for name, value in settings.items() if value != present[name]]
    return ", ".join(moved) or "present settings"
