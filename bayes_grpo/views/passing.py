"""pass@1 and pass@k over a training as a document."""

from __future__ import annotations

from bayes_grpo.common.document import Cell, Document, number, section, sentence_case, shows, span, table
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.passing.passing import Passing


@shows(Passing)
def passing_document(p: Passing) -> Document:
    """More prompts solved, or the same ones more often, as a document."""
    heads = ("steps", "prompts", "pass@1", f"pass@{p.k}", "unbiased pass@1", f"unbiased pass@{p.k}", "distinct right")
    rows = (
        (
            f"{x.first_step} to {x.last_step}",
            x.prompts,
            _share(x.pass_1),
            _share(x.pass_k),
            number(f"{x.estimate_1:.0%}"),
            number("" if x.estimate_k != x.estimate_k else f"{x.estimate_k:.0%}"),
            x.distinct,
        )
        for x in p.phases
    )
    note = "Posterior of all prompts that the run draws from; unbiased estimates are of the prompts that came."
    texts = "" if p.phases[-1].distinct == p.phases[-1].distinct else "distinct right answers (no texts are saved); "
    return Document(
        title=f"pass@1 and pass@{p.k}, right by {p.by}",
        answer=sentence_case(f"{p.verdict}."),
        why=sentence_case(p.numbers),
        tone="" if p.convergence.passed else "doubt",
        table=table(f"Prompts solved ({LEVEL:.0%} intervals)", heads, rows, note),
        sections=(section("Sampler", p.convergence.sentence),),
        assumed=f"an answer is right where {p.by} says so; if that scores format, so does this table (--right)",
        unchecked=f"Not covered: {texts}tries beyond {p.k}, and prompts that the run does not draw",
        docs="how/rollouts",
    )


def _share(i: Interval) -> Cell:
    return number(f"{i.median:.0%} {span(i, '.0%')}")
