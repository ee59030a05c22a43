"""A check of a fit as a document."""

from __future__ import annotations

from bayes_grpo.checking import ALERT, Check
from bayes_grpo.common.document import Cell, Document, Tone, number, section, sentence_case, shows, table, words


@shows(Check)
def check_document(c: Check) -> Document:
    """The verdict on a fit and the result of each check."""
    rows = (
        (
            words(f.name, term=f.name),
            number(f"{f.statistic:.3g}"),
            number(f"{f.limit:.3g}"),
            number(f"{f.tail:.3f}" if f.tail >= 0.001 else "< 0.001", mark=f.tail < ALERT),
        )
        for f in c.findings
    )
    heads = ("check", "statistic", "95% limit", Cell("tail probability", term="tail probability"))
    return Document(
        title=c.about.run,
        about=f"{c.about.rows} rows of {c.about.signal}, regime {c.regime}",
        answer=sentence_case(c.sentence),
        why=c.prior.sentence,
        do=_next_step(c),
        tone=_tone_of_check(c),
        table=table("Residuals against replicated rows", heads, rows),
        sections=(section("Findings", *(f.sentence for f in c.findings)),),
        docs="how/compare",
    )


def _next_step(c: Check) -> str:
    """Another regime may describe a shape; the noise of single rows is the same in all."""
    if not c.misses:
        return ""
    shape = {"autocorrelation", "break"} & set(c.misses)
    return (
        "compare regimes (bayes-grpo compare)." if shape else "look at these rows: their batches, prompts, evaluations."
    )


def _tone_of_check(c: Check) -> Tone:
    if not c.converged:
        return "alarm"
    return "doubt" if c.misses else "good"
