"""Rollouts, and two runs compared on the same prompts, as documents."""

from __future__ import annotations

from functools import partial

from bayes_grpo.common.document import (
    Document,
    Drawing,
    Tabular,
    number,
    section,
    sentence_case,
    shows,
    span,
    table,
    words,
)
from bayes_grpo.common.intervals import LEVEL, Interval, percent
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.groups import GroupSummary
from bayes_grpo.rollouts.paired import ByPrompt
from bayes_grpo.rollouts.summary import RolloutSummary
from bayes_grpo.views.plots.rollouts import plot_rollouts


@shows(RolloutSummary)
def rollouts_document(s: RolloutSummary) -> Document:
    """Parts of the gain, and the groups that carry a gradient."""
    answer, *why = map(sentence_case, s.sentences)
    r = s.rollouts
    gain = s.gain if s.gain is not None and s.gain.shares else None
    tables = tuple(x for x in (gain and gain_table(gain), s.groups and _sizes(s.groups)) if x)
    return Document(
        title=r.source,
        about=f"{r.bytes / 1e6:.1f} MB in {r.files} file{'s' * (r.files > 1)}",
        answer=answer,
        why=" ".join(why),
        tone="doubt" if s.joined is not None and not s.joined.matches else "",
        table=tables[0] if tables else None,
        plot=Drawing(partial(plot_rollouts, s), f"Parts of the gain over the steps. {answer}"),
        sections=(
            section("Group sizes", tables=tables[1:]),
            section("Log", *(() if s.joined is None else (s.joined.sentence,)), r.sentence),
            section("Notes", *r.notes, *(s.gain.notes if s.gain else ())),
        ),
        unchecked=f"Not available: {'; '.join(s.missing)}" if s.missing else "",
        docs="how/rollouts",
    )


@shows(ByPrompt)
def by_prompt_document(found: ByPrompt) -> Document:
    """Two runs on the prompts that both saw."""
    return Document(
        title=f"A {found.a}, B {found.b}",
        about=f"mean rewards {found.mean_a:.3g} and {found.mean_b:.3g}; {percent(found.shared)} of the prompts shared",
        answer=sentence_case(found.sentence),
        unchecked=f"Not covered: other seeds; {percent(found.p_better)} is about these two runs, not their recipes",
        docs="how/rollouts",
    )


def gain_table(gain: Decomposition) -> Tabular:
    """Parts of a gain."""
    sides = (f"steps {a:g} to {b:g}" for a, b in (gain.first, gain.last))
    rows = ((words(s.words, limit=60), s.before, s.after, number(_share(s.share))) for s in gain.shares)
    caption = f"What the gain is made of ({LEVEL:.0%} intervals over {gain.clusters})"
    return table(caption, ("of the gain", *sides, "share of the gain"), rows)


def _sizes(groups: GroupSummary) -> Tabular:
    rows = (
        (
            f"{s.group_size}{' (now)' if s.group_size == groups.group_size else ''}",
            number(f"{s.useful:.0%}"),
            number(f"{s.row_noise:.3g}"),
            number(f"{s.prompts_share:.0%}"),
        )
        for s in groups.sizes
    )
    heads = ("completions a prompt", "groups with spread", "noise of the logged mean", "share due to prompts")
    return table("Group sizes at an equal number of completions", heads, rows)


def _share(x: Interval) -> str:
    return "no clear gain" if x.median != x.median else f"{x.median:.0%} {span(x, '.0%')}"
