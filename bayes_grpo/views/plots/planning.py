"""Picture of a plan: what its best candidates gain over the present settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import headline, one_panel
from bayes_grpo.common.text import drawable
from bayes_grpo.planning.planned import WORDS, Candidate, Plan

if TYPE_CHECKING:
    from bayes_grpo.common.picture import Canvas

_BAR, PRESENT, _GAIN = "#1d4ed8", "#6b7280", "#111827"
_LISTED = 10
"""Candidates whose gains are drawn."""


def plot_plan(plan: Plan, figure: Canvas | None = None) -> Canvas:
    """Draws what the best candidates of a plan gain.

    Args:
        plan: The plan.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure, axes = one_panel(figure, (8.0, 5.2))
    some = plan.candidates[:_LISTED]
    for i, c in enumerate(some):
        axes.plot([c.gain.low, c.gain.high], [i, i], color=_BAR, lw=2)
        axes.plot(c.expected_gain, i, "o", color=_GAIN, ms=5)
    axes.axvline(0.0, color=PRESENT, lw=0.8)
    axes.set_yticks(range(len(some)), [drawable(label(plan, c), 60) for c in some], fontsize=8)
    axes.set_ylim(len(some) - 0.5, -0.5)
    axes.set_title(f"gain over the present settings ({LEVEL:.0%} intervals)", fontsize=9, loc="left")
    axes.tick_params(labelsize=8)
    headline(figure, plan.sentence, 100, 900)
    return figure


def label(plan: Plan, candidate: Candidate) -> str:
    """What a candidate changes, in few words."""
    moved = [
        f"{value:g} × {WORDS[name]}" if name == "learning_rate" and not plan.rate_known else f"{WORDS[name]} {value:g}"
        for name, value in candidate.settings.items()
        if value != plan.present[name]
    ]
    return ", ".join(moved) or "present settings"
