"""What settings do: the exponents of a family beside what theory expects."""

from __future__ import annotations

import math

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.families.result import Exponent, Family
from bayes_grpo.report.answer import Answer
from bayes_grpo.report.page import Cell, Lead, PageTable, Part, Picture, Section, head, number, said, words
from bayes_grpo.report.sections.common import digits, estimate, new_figure, nothing, panels, span
from bayes_grpo.report.svg import Pictures
from bayes_grpo.views.plots.families import plot_family

KEY, TITLE, QUESTION = "effects", "What settings do", "By which exponent does each quantity follow a varied setting?"


def lead(found: Answer[Family]) -> Lead:
    """The sentence at the top."""
    if found.value is None:
        return Lead(TITLE, said(f"Cannot be told. {found.reason}"), "", "doubt", KEY)
    exponents = found.value.exponents
    known = sum(e.verdict != "cannot tell" for e in exponents)
    told = found.value.sentence
    tone = "doubt" if not known or not found.value.converged else ""
    return Lead(TITLE, said(told, 900), f"{known} of {len(exponents)} exponents can be told", tone, KEY)


def section(found: Answer[Family], _: object, pictures: Pictures) -> Section:
    """The section.

    Args:
        found: The family.
        _: Names of the runs of either recipe, which a family does not have.
        pictures: Where drawings are gathered.
    """
    f = found.value
    if f is None:
        return nothing(KEY, TITLE, QUESTION, found.reason)
    spreads = tuple(
        f"{s.words}: {digits(s.posterior.median, '.2g')} {span(s.posterior, '.2g')}, prior {span(s.prior, '.2g')}"
        for s in f.spreads
    )
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=said(f.sentence, 900),
        tone="" if f.converged else "doubt",
        pictures=_pictures(f, pictures),
        tables=(_exponents(f), _runs(f)),
        parts=(
            Part("What sets runs of the same settings apart", spreads),
            *((Part("What not to believe", tuple(map(said, f.cautions)), "doubt"),) if f.cautions else ()),
        ),
        terms=("interval", "prior", "contraction", "probability"),
    )


def _exponents(f: Family) -> PageTable:
    heads = head(
        "quantity", "setting", "exponent", "", "prior", "theory", "P(as theory)", "P(none)",
        Cell("learned", term="contraction"), "verdict",
    )  # fmt: skip

    def line(e: Exponent) -> tuple[Cell, ...]:
        theory = "" if math.isnan(e.predicted) else f"{e.predicted:+g}"
        if theory and e.finite != e.predicted:
            theory += f", with finite groups {e.finite:+.2f}"
        return (
            words(e.words),
            words(e.setting.replace("_", " "), limit=60),
            *estimate(e.posterior, "+.2f"),
            number(span(e.prior, "+.2f")),
            words(theory),
            number("" if math.isnan(e.p_predicted) else probability_text(e.p_predicted)),
            number(probability_text(e.p_zero)),
            number(f"{e.contraction:.0%}"),
            words(e.verdict, mark=e.verdict != "cannot tell"),
        )

    caption = f"Exponents: quantity ∝ setting^exponent, {LEVEL:.0%} intervals"
    return PageTable(caption, heads, tuple(map(line, f.exponents)))


def _runs(f: Family) -> PageTable:
    """Every run, shrunk towards the family."""
    heads = head(
        "run", *(name.replace("_", " ") for name in f.vary), "rate, 1/step", "", "by itself", "plateau", "",
        "fluctuation", "",
    )  # fmt: skip
    rows = tuple(
        (
            words(r.name, limit=40),
            *(number(f"{r.settings[name]:g}") for name in f.vary),
            *estimate(r.rate, ".2g"),
            number(digits(r.alone.median, ".2g")),
            *estimate(r.plateau, ".2g"),
            *estimate(r.fluctuation_sd, ".2g"),
        )
        for r in f.runs
    )
    return PageTable("Every run, shrunk towards the family", heads, rows, folded=True)


def _pictures(f: Family, pictures: Pictures) -> tuple[Picture, ...]:
    figure = new_figure((12.0, max(4.0, 0.36 * len(f.exponents) + 1.6)))
    plot_family(f, figure)
    told = "; ".join(said(e.sentence, 160) for e in f.exponents[:6])
    first = f.vary[0].replace("_", " ")
    return panels(
        pictures,
        figure,
        [
            (0, f"Curves of {len(f.runs)} runs, coloured by {first}.", f"Rows and curves, {LEVEL:.0%} bands."),
            (1, f"Exponents. {told}", "Blue: posterior; grey: prior; diamond: theory; shaded: practically nothing."),
        ],
        "half",
    )
