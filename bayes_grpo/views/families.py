"""Effects of settings over several runs, and two recipes compared, as documents."""

from __future__ import annotations

from functools import partial

from bayes_grpo.common.document import (
    Cell,
    Document,
    Drawing,
    Point,
    Tabular,
    Tone,
    chance,
    number,
    ranged,
    section,
    sentence_case,
    shows,
    span,
    table,
    words,
)
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.families.compare_runs import Compared, ComparedRun
from bayes_grpo.families.recipes import RecipeAnswer
from bayes_grpo.families.result import Sweep
from bayes_grpo.signals.path import fit_path
from bayes_grpo.views.batches import LEVELS_NOTE
from bayes_grpo.views.plots.runs import plot_compare_runs, plot_sweep


@shows(Sweep)
def sweep_document(f: Sweep) -> Document:
    """Which settings move which quantity, with what exponent."""
    known = [e for e in f.exponents if e.verdict != "cannot tell"]
    answer = f"{len(known)} of {len(f.exponents)} effects of settings are known from {len(f.runs)} runs."
    tone: Tone = "" if known else "doubt"
    if not f.converged:
        tone = "alarm"
    named = "; ".join(x.sentence for x in f.named)
    points = (Point("Settings from file names", f"{named}."),) if named else ()
    return Document(
        title=", ".join(f.vary),
        about=f"{len(f.runs)} runs, {f.signal}, varied: {', '.join(f.vary)}",
        answer=f.collapse_sentence
        or (answer if f.converged else "The sampler did not converge; do not use these numbers."),
        why=sentence_case(f.effects_sentence, 900),
        do=_next_step(f),
        tone=tone,
        points=(*points, Point("Repetitions", f.repetition_sentence)),
        table=_exponents(f) if f.exponents else _runs(f),
        plot=Drawing(partial(plot_sweep, f), f"Curves of the runs. {answer}", ratio=0.5),
        sections=(section("Cautions", *f.cautions, tone="doubt"),),
        assumed=f.assumed,
        unchecked=f"Caution: {f.cautions[0]}" if f.cautions else "",
        docs="how/sweep",
    )


def _next_step(f: Sweep) -> str:
    collapsed = [run for run in f.runs if run.collapsed]
    return f"see what failed first: bayes-grpo diagnose {collapsed[0].name}." if collapsed else ""


def _runs(f: Sweep) -> Tabular:
    """Every run with its settings and its first, last and best level."""
    paths = ((run, fit_path(run.step, run.reward)) for run in f.runs)
    levels = [(run, path.display_levels) for run, path in paths if path is not None]
    rows = (
        (words(run.name, mark=run.collapsed), *run.settings.values(), x.first, x.last, x.best, x.best_step)
        for run, x in sorted(levels, key=lambda pair: -pair[1].last)
    )
    heads = ("run", *f.vary, "first", "last", "best", "at step")
    return table("Runs, the highest last reward first", heads, rows, LEVELS_NOTE)


def _exponents(f: Sweep) -> Tabular:
    rows = (
        (
            e.setting,
            e.words,
            number(ranged(e.posterior, "+.2f")),
            number(span(e.prior, "+.2f")),
            chance(e.p_zero),
            number(f"{e.runs} at {e.values} values"),
            words(e.verdict, mark=e.verdict != "cannot tell"),
        )
        for e in sorted(f.exponents, key=lambda e: e.verdict == "cannot tell")
    )
    heads = ("setting", "quantity", "exponent", Cell("prior", term="prior"), "P(none)", "runs", "verdict")
    note = f"Quantity ∝ setting^exponent; {LEVEL:.0%} intervals. For a plateau: relative change per e-fold."
    return table("Effects of settings", heads, rows, note)


@shows(Compared)
def compared_document(c: Compared) -> Document:
    """The better recipe, limits of the comparison, and how many further seeds would settle it."""
    lead, numbers = c.clauses
    answer = f"{sentence_case(lead)}."
    why = sentence_case(numbers)
    if c.not_comparable:
        answer = f"The totals are not comparable: the rewards differ.{' Compare the parts.' if c.parts else ''}"
    others = f"What differs: {'; '.join(c.differs)}. " if c.differs else ""
    a, b = c.counts.values()
    total = _answers("A against B", c.answers, verdict="not comparable" if c.not_comparable else "")
    parts = _answers("A against B by parts", c.parts)
    by_parts = c.not_comparable and c.parts
    runs = tuple(map(_run_line, c.runs))
    few = len(runs) <= _NAMED_RUNS
    return Document(
        title="A against B",
        about=f"A: {a} run{'s' * (a > 1)}, B: {b} run{'s' * (b > 1)}, signal {c.signal}",
        answer=answer,
        why=others + why,
        tone="doubt" if c.not_comparable or c.answers[0].verdict == "cannot tell" else "good",
        points=runs if few else (),
        table=parts if by_parts else total,
        plot=Drawing(partial(plot_compare_runs, c), f"Curves of both recipes. {answer}", ratio=0.5),
        sections=(
            section("Runs", *(() if few else (f"{x.label}: {x.sentence}" for x in runs))),
            section("Totals", tables=(total,) if by_parts else ()),
            section("Parts", tables=(parts,) if c.parts and not by_parts else ()),
            section("Spread", f"Standard deviation between seeds: {ranged(c.answers[0].spread)}, {c.spread_from}."),
            section("Cautions", *c.cautions, tone="doubt"),
        ),
        unchecked=f"Caution: {c.cautions[0]}" if c.cautions else "",
        docs="how/sweep",
    )


_NAMED_RUNS = 6
"""Runs up to which each has its line on the first screen; those of more are a section."""


def _run_line(run: ComparedRun) -> Point:
    """A run in one line: its rows and levels, then its status and why."""
    x = run.levels
    rows = f"{run.rows} rows to step {run.last_step:g}"
    levels = f"{x.first:.3g} at first, {x.last:.3g} at last, {x.best:.3g} at best (step {x.best_step:g})"
    return Point(f"{run.recipe}, {run.name}", f"{rows}, {levels}. {run.status.named}: {run.status.headline}")


def _answers(title: str, answers: tuple[RecipeAnswer, ...], verdict: str = "") -> Tabular:
    rows = (
        (x.words, x.a, x.b, x.difference, "" if verdict else chance(x.p_better),
         words(verdict or x.verdict, mark=not verdict and x.verdict != "cannot tell"))
        for x in answers
    )  # fmt: skip
    heads = ("where", "A", "B", "B less A", "P(B better)", "verdict")
    note = f"Means over seeds, {LEVEL:.0%} intervals."
    if "parts" in title:
        note += " Rows: the last fifth of those that all runs have."
    return table(title, heads, rows, note)
