"""The analysis of a run as the document of its page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from bayes_grpo.analysis.result import Analysis, Part, unless_changed
from bayes_grpo.common.document import TONES, Document, Drawing, Point, Section, section, sentence_case
from bayes_grpo.common.intervals import percent
from bayes_grpo.common.text import clean
from bayes_grpo.comparison.result import Comparison
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.status import MODES, Status
from bayes_grpo.diagnosis.wording import label_of
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.result import Plan
from bayes_grpo.signals.thresholds import THRESHOLDS
from bayes_grpo.views.decision import decision_document
from bayes_grpo.views.diagnosis import (
    episode_tables,
    evaluation_line,
    evidence_lines,
    gain_tables,
    marks,
    mode_table,
    parts_table,
    reason,
    remedy_lines,
)
from bayes_grpo.views.forecasting import weights_section
from bayes_grpo.views.logs import columns, extent, settings
from bayes_grpo.views.plots.diagnosis import plot_part
from bayes_grpo.views.plots.fitting import plot_fit, plot_residuals
from bayes_grpo.views.plots.forecasting import plot_overview
from bayes_grpo.views.plots.logs import plot_signal
from bayes_grpo.views.view import view

_SIGNALS = 12
"""Signals that are drawn."""
_REMEDIES = 3
"""Further remedies that are shown."""
_REASON = 80
"""Characters of a reason that stands in an answer."""
NOT_COMPARED = "Compared with --full only."
"""Reason of a page without a comparison of regimes."""
MORE_HINT = "The full comparison, by leave-one-out and rows ahead: bayes-grpo compare LOG, or report --full."
PRICE_HINT = "Whether it is worth the cost needs a cost and a value: --cost-per-step and --value-per-reward."


PENDING: Part[Any] = Part(reason="Still being computed; the page is written again then.")
"""A part of an analysis that is under way."""


def page_of(run: Run, found: Analysis) -> Document:
    """Everything that was found so far, on one page."""
    status = found.status
    ahead = found.forecast.value
    forecast = None if ahead is None else ahead.forecast
    decision = None if ahead is None else ahead.decision
    diagnosis = found.diagnosis.value
    events = {} if diagnosis is None else marks(diagnosis)
    paths = None if diagnosis is None else diagnosis.paths
    if decision is not None and decision.recommended is not None:
        events["recommended stop"] = decision.recommended
    answer, why = "Too early to tell.", ""
    if status is not None:
        answer, why = sentence_case(status.finding.lead), sentence_case(status.finding.detail)
    log = view(run)
    parts: list[Section] = [
        _signals(run),
        _part("Parts", found.diagnosis, _parts),
        _part("What happened", found.diagnosis, _outcome_text),
        _part("Forecast", found.forecast, partial(_forecast, status=status)),
        _part("Fit", found.fit, _fit),
        _regimes(found),
        _part("Check", found.check, lambda c: _check(found, c)),
        _part("Stability", found.stability, lambda p: _stability(p, status)),
        section("Log", *(clean(note, 200) for note in run.notes), tables=(columns(run),)),
        section("Settings", tables=(settings(run),)),
    ]
    overview = partial(plot_overview, run, paths, forecast, events)
    plot = Drawing(overview, f"The logged rewards and the forecast. {answer}")
    return Document(
        title=log.title or "A run without a name",
        about=f"{extent(run)}.",
        status="" if status is None else status.status,
        chance=None if status is None else status.chance,
        answer=answer,
        evaluation="" if diagnosis is None else evaluation_line(diagnosis),
        why=why,
        do="" if status is None else status.action.sentence,
        tone="doubt" if status is None else TONES[status.status],
        points=_points(found),
        plot=plot,
        sections=tuple(p for p in parts if not p.empty),
        assumed=log.assumed,
        unchecked=log.unchecked,
    )


def _part[T](title: str, answer: Part[T], make: Callable[[T], Section]) -> Section:
    """A section, or the reason why there is none; one that cannot be made must not cost the others."""
    if answer.value is None:
        return Section(title, missing=answer.reason)
    try:
        return replace(make(answer.value), title=title)
    except Exception as error:
        return Section(title, missing=f"Could not be shown: {type(error).__name__}: {error}")


def _regimes(found: Analysis) -> Section:
    """The comparison of the regimes where it was made; else the weights that the forecast gives them."""
    title = "Regimes"
    if found.regimes.value is not None or found.regimes.reason != NOT_COMPARED:
        return _part(title, found.regimes, _compared)
    return _part(title, found.forecast, lambda f: weights_section(f.summary, MORE_HINT))


def _compared(c: Comparison) -> Section:
    """A comparison, with the regimes that have no place in it."""
    lost = tuple(f"{sentence_case(name)} is left out: {why.rstrip('.')}." for name, why in c.left_out.items())
    return _folded(c, plot=True, lines=lost)


def _folded(result: Any, *, plot: bool = False, status: Status | None = None, lines: tuple[str, ...] = ()) -> Section:
    """A result as a section: answer, reason, table, and its figure where there is room."""
    document = unless_changed(view(result), status)
    made = document.folded()
    plots = (replace(document.plot, size="whole"),) if plot and document.plot is not None else ()
    return replace(made, lines=(*made.lines, *lines), plots=plots)


def _signals(run: Run) -> Section:
    plots = (
        Drawing(partial(plot_signal, run, name), f"{name.replace('_', ' ')} by step", size="small", ratio=0.66)
        for name in list(run.signals)[:_SIGNALS]
    )
    return Section("Signals", plots=tuple(plots))


def _parts(d: Any) -> Section:
    """Small multiples of the reward functions and environments, above their table."""
    if not d.parts:
        return Section("")
    paths = d.paths.components | d.paths.environments
    plots = (
        Drawing(partial(plot_part, paths[p.name], p.name, p.falls_since), p.name, size="small", ratio=0.66)
        for p in d.parts[:_SIGNALS]
    )
    return Section("", tables=(parts_table(d),), plots=tuple(plots))


def _outcome_text(d: Any) -> Section:
    further = remedy_lines(d)[1 : 1 + _REMEDIES]  # the first is at the top of the page
    tables = (*episode_tables(d), mode_table(d), *gain_tables(d))
    return Section("", (reason(d), *evidence_lines(d), *further), tables, tone=TONES[d.status.status])


def _forecast(f: Any, status: Status | None) -> Section:
    document = view(f.summary)
    assumed = f"Assumed: {document.assumed}." if document.assumed else ""  # names the reference runs
    lines = tuple(x for x in (document.unchecked, assumed) if x)
    made = _folded(f.summary, status=status, lines=lines)
    if f.decision is None:
        return replace(made, lines=(*made.lines, PRICE_HINT))
    decision = decision_document(f.decision)
    tables = (*made.tables, *(() if decision.table is None else (decision.table,)))
    more = tuple(sentence_case(x) for s in decision.sections for x in s.lines)
    return replace(made, lines=(*made.lines, decision.answer, decision.why, *more), tables=tables)


def _fit(f: Any) -> Section:
    made = _folded(f.summary)
    plot = Drawing(partial(plot_fit, f.fit), f"Rows and fitted curve. {made.lead}", size="half", ratio=0.55)
    return replace(made, plots=(plot,), terms=("interval",))


def _check(found: Analysis, c: Any) -> Section:
    fitted = found.fit.value
    if fitted is None:
        return _folded(c)
    draw = partial(plot_residuals, fitted.fit, c)
    return replace(_folded(c), plots=(Drawing(draw, "Leave-one-out residuals by step", size="half", ratio=0.45),))


def _stability(plan: Plan, status: Status | None) -> Section:
    if status is not None and status.alarming and status.finding.mode == "dynamical_instability":
        return Section("", lead="This run fails, so its settings are not safe, whatever the margins.", tone="alarm")
    return _folded(plan)


def _points(found: Analysis) -> tuple[Point, ...]:
    """Where the reward goes, what is left, and what is wrong; each chance is that of the event it names."""
    out = []
    labels = ("Where it goes", "What is left", "What is wrong")
    fitted, ahead, d = found.fit.value, found.forecast.value, found.diagnosis.value
    if fitted is None:
        out.append(Point(labels[0], _unknown(found.fit, "Fit"), tone="doubt"))
    else:
        document = view(fitted.summary)
        passed = fitted.summary.convergence.passed
        chance = fitted.summary.rose if passed else None
        out.append(Point(labels[0], document.answer, chance, "chance that it has grown", document.tone))
    if ahead is None:
        out.append(Point(labels[1], _unknown(found.forecast, "Forecast"), tone="doubt"))
    else:
        s = ahead.summary
        event = f"chance of a gain above {s.threshold:.2g}"
        level = s.reward_text(s.at_horizon)
        bare = replace(view(s), answer=sentence_case(f"{s.outlook.clause}: {level}."))  # one chance for each answer
        document = unless_changed(bare, found.status)
        out.append(Point(labels[1], document.answer, s.p_gain, event, document.tone))
    if d is None:
        out.append(Point(labels[2], _unknown(found.diagnosis, "What happened"), tone="doubt"))
    else:
        out.append(_wrong(labels[2], d))
    return tuple(out)


def _wrong(label: str, d: Diagnosis) -> Point:
    """The most probable failure; without one what the status asks to look at."""
    tone = TONES[d.status.status]
    worst = max(MODES, key=d.probability.__getitem__)
    if d.probability[worst] > THRESHOLDS.suspect:
        text = f"Most likely {label_of(worst)} ({percent(d.probability[worst])})."
        return Point(label, text, d.failing, "chance of a failure", tone)
    if d.status.status == "watch":
        return Point(label, d.status.finding.lead, d.status.chance, "chance of it", tone)
    return Point(label, "No failure detected.", d.failing, "chance of a failure", tone)


def _unknown(part: Part[Any], title: str) -> str:
    """Why there is no answer; a long reason is in the section alone."""
    if part is PENDING:
        return part.reason
    return f"Unknown: {part.reason}" if len(part.reason) <= _REASON else f"Unknown; the reason is under {title}."
