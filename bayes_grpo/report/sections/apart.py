"""What several runs differ in: quantities of the fitted law, diagnoses, settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.common.text import drawable
from bayes_grpo.diagnosis.classes import ANSWERS
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.report.page import Cell, PageTable, Part, Section, head, number, said, words
from bayes_grpo.report.sections.common import SMALL, digits, new_figure, nothing, panels, span
from bayes_grpo.report.sections.together import RUN_COLOURS, OneOf
from bayes_grpo.report.svg import Pictures

if TYPE_CHECKING:
    from bayes_grpo.fitting.summary import SummaryRow

_SHOWN = 6
"""Quantities of which a picture is shown."""


def quantities(runs: Sequence[OneOf], pictures: Pictures) -> Section:
    """The section with the quantities of the law, run by run."""
    key, title, question, _ = SECTIONS[0]
    known = {x.name: {r.name: r for r in x.fitted.summary.rows} for x in runs if x.fitted is not None}
    if not known:
        return nothing(key, title, question, "No run could be fitted.")
    first = next(iter(known.values()))
    names = [n for n in first if all(n in rows for rows in known.values())]
    law = next(x.fitted.summary.regime for x in runs if x.fitted is not None)

    def line(run: str) -> tuple[Cell, ...]:
        cells = []
        for n in names:
            r = known[run][n]
            cells.append(number(f"{digits(r.posterior.median)} {span(r.posterior)}"))
        return (words(run, limit=40), *cells)

    heads = head("run", *(Cell(n.replace("_", " "), term=n.replace("_", " ")) for n in names))
    shown = sorted(names, key=lambda n: n not in ("fixed_point", "initial_reward", "half_gain_step"))[:_SHOWN]
    figure = new_figure((SMALL[0] * len(shown), max(1.2, 0.32 * len(known) + 0.9)))
    told = []
    for i, n in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), i + 1)
        for at, rows in enumerate(known.values()):
            p = rows[n].posterior
            colour = RUN_COLOURS[at % len(RUN_COLOURS)]
            axes.plot([p.low, p.high], [at, at], color=colour, lw=1.8)
            axes.plot(p.median, at, "o", color=colour, ms=5)
        axes.set_yticks(range(len(known)), [drawable(run, 22) for run in known], fontsize=8)
        axes.set_ylim(len(known) - 0.5, -0.5)
        if _logarithmic([rows[n] for rows in known.values()]):
            axes.set_xscale("log")
        unit = first[n].unit
        axes.set_title(n.replace("_", " ") + (f" ({unit})" if unit else ""), fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        told.append((i, f"{n.replace('_', ' ')} of each run with its {LEVEL:.0%} interval", ""))
    return Section(
        key,
        title,
        question,
        answer=f"One law, {law}, on every run: where the intervals lie apart, the runs differ.",
        pictures=panels(pictures, figure, told),
        tables=(PageTable(f"Quantities of the law {law}, {LEVEL:.0%} intervals", heads, tuple(map(line, known))),),
        terms=("law", "interval"),
        explained={n.replace("_", " "): said(first[n].meaning) + "." for n in names},
    )


def _logarithmic(rows: Sequence[SummaryRow]) -> bool:
    low, high = min(r.posterior.low for r in rows), max(r.posterior.high for r in rows)
    return low > 0 and high / low > 20


def diagnoses(runs: Sequence[OneOf], pictures: Pictures) -> Section:
    """The section with the diagnoses, run by run."""
    key, title, question, _ = SECTIONS[1]
    known = [(x.name, x.parts["diagnosis"].value) for x in runs if x.parts["diagnosis"].value is not None]
    if not known:
        return nothing(key, title, question, runs[0].parts["diagnosis"].reason)

    def line(name: str, d: object) -> tuple[Cell, ...]:
        found = dict(known)[name]
        return (
            words(name, limit=40),
            words(label_of(found.leads), term=label_of(found.leads), mark=found.top.alarming),
            *(number(probability_text(found.probability[a]), mark=a == found.leads) for a in ANSWERS),
        )

    heads = head("run", "answer", *(Cell(label_of(a), term=label_of(a)) for a in ANSWERS))
    counts = {a: sum(d.leads == a for _, d in known) for a in ANSWERS}
    return Section(
        key,
        title,
        question,
        answer=said(", ".join(f"{n} {label_of(a)}" for a, n in counts.items() if n)) + ".",
        tone="alarm" if any(d.top.alarming for _, d in known) else "",
        tables=(PageTable("Probability of each answer", heads, tuple(line(*x) for x in known)),),
        parts=(Part("Each run by itself", tuple(f"{name}: {said(d.sentence)}" for name, d in known)),),
    )


def settings(runs: Sequence[OneOf], pictures: Pictures) -> Section:
    """The section with the settings in which the runs differ."""
    key, title, question, _ = SECTIONS[2]
    values = {x.name: {name: s.value for name, s in x.run.settings.items()} for x in runs}
    names = list(next(iter(values.values())))
    differ = [n for n in names if len({str(v[n]) for v in values.values()}) > 1]

    def text(value: object) -> str:
        return "not known" if value is None else f"{value:g}" if isinstance(value, float) else f"{value}"

    rows = tuple(
        (
            words(x.name, limit=40),
            number(str(len(x.run.step))),
            *(words(text(values[x.name][n]), limit=60) for n in differ),
        )
        for x in runs
    )
    heads = head("run", "rows", *(n.replace("_", " ") for n in differ))
    answer = (
        f"They differ in {', '.join(n.replace('_', ' ') for n in differ)}." if differ else "In none that was logged."
    )
    return Section(key, title, question, answer=answer, tables=(PageTable("Settings that differ", heads, rows),))


SECTIONS: tuple[tuple[str, str, str, Callable[[Sequence[OneOf], Pictures], Section]], ...] = (
    ("quantities", "The law", "In which quantities do the runs differ?", quantities),
    ("diagnoses", "What is wrong", "Is anything wrong with one of them?", diagnoses),
    ("settings", "Settings", "In which settings do they differ?", settings),
)
"""Key, title, question and maker of each."""
