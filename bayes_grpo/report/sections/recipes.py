"""Which of two recipes is better, when seeds of one recipe differ too."""

from __future__ import annotations

from collections.abc import Sequence

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.families.compared import Compared
from bayes_grpo.report.answer import Answer
from bayes_grpo.report.page import Cell, Lead, PageTable, Part, Picture, Section, head, number, said, words
from bayes_grpo.report.sections.common import estimate, new_figure, nothing, panels
from bayes_grpo.report.svg import Pictures
from bayes_grpo.views.plots.families import plot_compare_runs

KEY, TITLE, QUESTION = "better", "A or B", "Is one recipe better, when seeds of one recipe differ too?"
SIZE = (11.0, 3.9)
"""Inches of the picture."""


def lead(found: Answer[Compared]) -> Lead:
    """The sentence at the top."""
    if found.value is None:
        return Lead(TITLE, said(f"Cannot be told. {found.reason}"), "", "doubt", KEY)
    first = found.value.answers[0]
    chance = f"P(B better) {probability_text(first.p_better)}"
    tone = "doubt" if first.verdict == "cannot tell" else ""
    return Lead("Which recipe is better", said(found.value.sentence), chance, tone, KEY)


def section(found: Answer[Compared], sides: tuple[Sequence[str], Sequence[str]], pictures: Pictures) -> Section:
    """The section.

    Args:
        found: The comparison.
        sides: Names of the runs of A and of B.
        pictures: Where drawings are gathered.
    """
    c = found.value
    if c is None:
        return nothing(KEY, TITLE, QUESTION, found.reason)
    heads = head(
        "where", "A", "", "B", "", "B less A", "", "P(B better)", "P(next seed of B better)", "apart (sd)", "verdict",
        "further seeds",
    )  # fmt: skip
    rows = tuple(
        (
            words(x.words),
            *estimate(x.a, ".3g"),
            *estimate(x.b, ".3g"),
            *estimate(x.difference, ".2g"),
            number(probability_text(x.p_better)),
            number(probability_text(x.p_next)),
            number(f"{x.spread.median:.2g}"),
            words(x.verdict, mark=x.verdict != "cannot tell"),
            Cell("" if x.further is None else str(x.further), number=True),
        )
        for x in c.answers
    )
    named = tuple(f"{side}: {', '.join(names)}" for side, names in zip("AB", sides, strict=True))
    spread = f"How far seeds of one recipe lie apart is taken {c.spread_from}."
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=said(c.sentence, 900),
        tone="doubt" if c.answers[0].verdict == "cannot tell" else "",
        pictures=_pictures(c, pictures),
        tables=(PageTable(f"A and B: means over seeds, {LEVEL:.0%} intervals", heads, rows),),
        parts=(
            Part("The recipes", (*named, said(spread), *((said(c.same_order.sentence, 400),) if c.same_order else ()))),
            *((Part("What not to believe", tuple(said(x) for x in c.cautions), "doubt"),) if c.cautions else ()),
        ),
        terms=("underlying reward", "interval", "probability"),
    )


def _pictures(c: Compared, pictures: Pictures) -> tuple[Picture, ...]:
    figure = new_figure(SIZE)
    plot_compare_runs(c, figure)
    curves = f"Curves of the runs of A (blue) and B (orange). {said(c.sentence)}"
    told = "; ".join(f"{x.words}: B less A {x.difference.median:+.3g}" for x in c.answers)
    return panels(
        pictures,
        figure,
        [
            (0, curves, f"A blue, B orange: rows, and the underlying reward with {LEVEL:.0%} bands."),
            (1, f"Difference of the recipes. {told}", f"B less A, {LEVEL:.0%} intervals."),
        ],
        "half",
    )
