"""Picture of a plan: expected reward against cost for the best few candidates and the present settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas
from bayes_grpo.common.text import drawable, title_lines
from bayes_grpo.planning.planned import WORDS, Course, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

_COLORS = ("#1d4ed8", "#0f766e", "#9333ea")
PRESENT, _GAIN = "#6b7280", "#111827"
_LISTED = 10
"""Candidates whose gains are drawn."""


def plot_plan(plan: Plan, figure: Canvas | None = None) -> Canvas:
    """Draws a plan: courses of the best candidates over cost, and what the candidates gain.

    Args:
        plan: The plan.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure = canvas(figure, (13.0, 5.2))
    left, right = figure.subplots(1, 2, width_ratios=(1.3, 1.0))
    _plot_courses(left, plan)
    _plot_gains(right, plan)
    for axes in (left, right):
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title_lines(plan.sentence, 160, 900), fontsize=10, x=0.01, ha="left")
    return figure


def _plot_courses(axes: Axes, plan: Plan) -> None:
    *best, present = plan.courses
    for course, color in zip(best, _COLORS, strict=False):
        _plot_course(axes, course, color, label(course.settings, plan.present))
    _plot_course(axes, present, PRESENT, "present settings")
    axes.axvline(plan.budget, color=PRESENT, lw=0.8, ls=":")
    axes.set_xlabel("cost of the run, steps of the present run", fontsize=9)
    axes.set_ylabel("reward" if plan.signal == "reward" else "held-out reward", fontsize=9)
    axes.set_title(f"expected reward at the end of a run ({LEVEL:.0%} bands, mean over seeds)", fontsize=9, loc="left")
    axes.legend(fontsize=8, frameon=False, loc="best")


def _plot_course(axes: Axes, course: Course, color: str, name: str) -> None:
    axes.fill_between(course.cost, course.low, course.high, color=color, alpha=0.12, lw=0)
    axes.plot(course.cost, course.mean, color=color, lw=1.8, label=drawable(name, 60))


def _plot_gains(axes: Axes, plan: Plan) -> None:
    some = plan.candidates[:_LISTED]
    for i, c in enumerate(some):
        axes.plot([c.gain.low, c.gain.high], [i, i], color=_COLORS[0], lw=2)
        axes.plot(c.expected_gain, i, "o", color=_GAIN, ms=5)
    axes.axvline(0.0, color=PRESENT, lw=0.8)
    axes.set_yticks(range(len(some)), [drawable(label(c.settings, plan.present), 60) for c in some], fontsize=8)
    axes.set_ylim(len(some) - 0.5, -0.5)
    axes.set_title(f"gain over the present settings ({LEVEL:.0%} intervals)", fontsize=9, loc="left")


def label(settings: Mapping[str, float], present: Mapping[str, float]) -> str:
    """What settings change, in few words."""
    moved = [f"{WORDS[name]} {value:g}" for name, value in settings.items() if value != present[name]]
    return ", ".join(moved) or "present settings"
