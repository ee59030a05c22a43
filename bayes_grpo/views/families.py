"""Effects of settings over several runs, and two recipes compared, as documents."""

from __future__ import annotations

import math
from functools import partial

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.families.compared import Compared
from bayes_grpo.families.result import Exponent, Family
from bayes_grpo.views.document import (
    Cell,
    Document,
    Drawing,
    Tabular,
    head,
    number,
    ranged,
    section,
    sentence_case,
    shows,
    span,
    split,
    words,
)
from bayes_grpo.views.plots.families import plot_compare_runs, plot_family


@shows(Family)
def family_document(f: Family) -> Document:
    """Which settings move which quantity, with what exponent."""
    known = [e for e in f.exponents if e.verdict != "cannot tell"]
    answer = f"{len(known)} of {len(f.exponents)} effects of settings can be told from {len(f.runs)} runs."
    spreads = "; ".join(f"{s.words} ± {ranged(s.posterior)} (prior {ranged(s.prior)})" for s in f.spreads)
    return Document(
        title=", ".join(f.vary),
        about=f"{len(f.runs)} runs, {f.studies} studies, regime {f.regime}, {f.signal}, {f.replicates} replicates",
        answer=answer if f.converged else "The sampler did not converge; do not use these numbers.",
        why=sentence_case(f.sentence, 900),
        tone="" if f.converged and known else "doubt" if f.converged else "alarm",
        table=_exponents(f),
        plot=Drawing(partial(plot_family, f), f"Curves of the runs, and exponents. {answer}", ratio=0.5),
        sections=(
            section("Runs", spreads and f"Between runs of the same settings: {spreads}.", tables=(_runs(f),)),
            *(section(name, x.sentence, tables=(_exponents(x),)) for name, x in f.transfer.items()),
            section("Data order", *(() if f.orders is None else (f.orders.sentence,))),
            section("Cautions", *f.cautions, tone="doubt"),
        ),
        unchecked=f.cautions[0] if f.cautions else "",
        docs="how/family",
    )


def _exponents(f: Family) -> Tabular:
    def theory(e: Exponent) -> str:
        if math.isnan(e.predicted):
            return ""
        return f"{e.predicted:+g}" + ("" if e.finite == e.predicted else f", {e.finite:+.2f}")

    rows = tuple(
        (
            words(e.words),
            words(e.setting),
            number(ranged(e.posterior, "+.2f")),
            number(span(e.prior, "+.2f")),
            number(theory(e)),
            number(probability_text(e.p_zero)),
            words(e.verdict, mark=e.verdict != "cannot tell"),
        )
        for e in f.exponents
    )
    heads = head("quantity", "setting", "exponent", Cell("prior", term="prior"), "theory", "P(none)", "verdict")
    note = f"Quantity ∝ setting^exponent; {LEVEL:.0%} intervals. For a plateau: relative change per e-fold."
    return Tabular("Effects of settings", heads, rows, note)


def _runs(f: Family) -> Tabular:
    rows = tuple(
        (
            words(r.name, limit=40),
            *(number(f"{r.settings[name]:g}") for name in f.vary),
            number(ranged(r.rate, ".2g")),
            number(f"{r.alone.median:.2g}"),
            number(ranged(r.plateau, ".2g")),
            number(ranged(r.fluctuation_sd, ".2g")),
        )
        for r in f.runs
    )
    heads = head("run", *f.vary, "rate, 1/step", "rate by itself", "plateau", "fluctuation")
    return Tabular("Every run, shrunk toward the others", heads, rows)


@shows(Compared)
def compared_document(c: Compared) -> Document:
    """Which recipe is better, and how many further seeds would tell."""
    answer, why = split(sentence_case(c.sentence).replace(": P(", ". P(", 1))
    a, b = c.counts
    return Document(
        title="A against B",
        about=f"A: {a} run{'s' * (a > 1)}, B: {b} run{'s' * (b > 1)}, signal {c.signal}",
        answer=answer,
        why=why,
        tone="doubt" if c.answers[0].verdict == "cannot tell" else "good",
        table=_answers(c),
        plot=Drawing(
            partial(plot_compare_runs, c),
            f"Curves of both recipes, and their difference. {answer}",
        ),
        sections=(
            section("Spread", f"Seeds lie {ranged(c.answers[0].spread)} apart (sd), {c.spread_from}."),
            section("Data order", *(() if c.same_order is None else (c.same_order.sentence,))),
            section("Cautions", *c.cautions, tone="doubt"),
        ),
        unchecked=c.cautions[0] if c.cautions else "",
        docs="how/family",
    )


def _answers(c: Compared) -> Tabular:
    rows = tuple(
        (
            words(x.words),
            number(ranged(x.a)),
            number(ranged(x.b)),
            number(ranged(x.difference)),
            number(probability_text(x.p_better)),
            number(probability_text(x.p_next)),
            words(x.verdict, mark=x.verdict != "cannot tell"),
        )
        for x in c.answers
    )
    heads = head("where", "A", "B", "B less A", "P(B better)", "P(next seed)", "verdict")
    note = f"Means over seeds, {LEVEL:.0%} intervals. P(next seed): a new seed of B beats a new seed of A."
    return Tabular("A against B", heads, rows, note)
