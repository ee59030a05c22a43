"""Runs that saw the same data at the same steps: their curves as logged, and without what the data did to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.text import drawable
from bayes_grpo.report.page import Cell, PageTable, Section, head, number, said, words
from bayes_grpo.report.sections.common import drawn, nothing
from bayes_grpo.report.sections.together import LINES, RUN_COLOURS, OneOf
from bayes_grpo.report.svg import Pictures
from bayes_grpo.siblings.shared import ClearedRun, cleared_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEY = "data-order"
TITLE = "The same data at the same steps"
QUESTION = "How much of the ups and downs is the order of the data, and how much is learning?"
_DRAWN = 8
"""Runs of which curves are drawn; more would hide each other."""


def section(runs: Sequence[OneOf], signal: str, pictures: Pictures) -> Section:
    """The section on a shared order of data.

    Args:
        runs: The runs.
        signal: "auto", "reward" or "eval".
        pictures: Where drawings are gathered.
    """
    try:
        found, cleared = cleared_runs([x.run for x in runs], signal)
    except FitError as error:
        return nothing(KEY, TITLE, QUESTION, said(str(error)))
    if not cleared:
        return nothing(KEY, TITLE, QUESTION, found.sentence)
    left = float(np.median([x.left for x in cleared]))
    shown = cleared[:_DRAWN]

    def draw(figure: Figure) -> None:
        raw, without = figure.subplots(1, 2, sharex=True, sharey=True)
        for i, x in enumerate(shown):
            look = {"color": RUN_COLOURS[i % len(RUN_COLOURS)], "ls": LINES[i // len(RUN_COLOURS) % len(LINES)]}
            raw.plot(x.step, x.y, lw=0.9, label=drawable(x.name, 22), **look)
            without.plot(x.step, x.cleared, lw=0.9, **look)
        for axes, title in ((raw, "as logged"), (without, "without the order of the data")):
            axes.set_title(title, fontsize=9, loc="left")
            axes.set_xlabel("optimizer step")
            axes.spines[["top", "right"]].set_visible(False)
        raw.set_ylabel("reward")
        raw.legend(fontsize=7, frameon=False)

    caption = "Left: rows as logged. Right: the same less the mean effect of each step, as the other runs tell it." + (
        f" The first {_DRAWN} of {len(cleared)} runs." if len(cleared) > _DRAWN else ""
    )
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=said(f"{found.sentence} Without it rows scatter {left:.2f} times as much about their curves."),
        pictures=(drawn(pictures, draw, f"Curves with and without it. {said(found.sentence)}", caption),),
        tables=(PageTable("Scatter that is left without the order of the data", head("run", "times"), _rows(cleared)),),
        terms=("noise", "interval"),
    )


def _rows(cleared: Sequence[ClearedRun]) -> tuple[tuple[Cell, ...], ...]:
    return tuple((words(x.name, limit=40), number(f"{x.left:.2f}")) for x in cleared)
