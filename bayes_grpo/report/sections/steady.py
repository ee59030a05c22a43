"""Whether the run's own settings are stable."""

from __future__ import annotations

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.planning.result import StabilityReport, Verdict
from bayes_grpo.report.answer import Answer, Stable
from bayes_grpo.report.page import Cell, Part, Section, Table, head, number, words
from bayes_grpo.report.sections.common import digits, nothing, span

KEY, TITLE, QUESTION = "stability", "Stability", "Are learning rate, momentum and lag on the safe side?"
_NAMES = {
    "rule": "published rule",
    "delay": "gradients always K_ref steps old, exact",
    "hold": "policy held for K_ref steps, exact",
}


def steady(found: Answer[Stable]) -> Section:
    """The section on stability."""
    if found.value is None:
        return nothing(KEY, TITLE, QUESTION, found.reason)
    report, note = found.value
    worst = min((report.rule, report.delay, report.hold), key=lambda v: v.probability_stable)
    lines = [f"Without lag, oscillation sets in at a gain of {report.onset:.3g}."]
    if note:
        lines.append(f"Curvature: {note}.")
    tell = (
        "A curvature that does not come from this curve: a run that refreshes its policy every step (--refresh 1), or "
        "a measured learning time; bayes-grpo stability takes both."
    )
    parts = [Part("What it rests on", tuple(lines))]
    if report.circular:
        parts.insert(0, Part("What would tell", (tell,)))
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=_answer(report, worst),
        tone="doubt" if report.circular else "alarm" if worst.probability_stable < 0.5 else "good",
        tables=(_table(report),),
        parts=tuple(parts),
        terms=("lag", "momentum"),
    )


def _answer(report: StabilityReport, worst: Verdict) -> str:
    convention = "heavy-ball" if report.convention == "heavy_ball" else "EMA (Adam)"
    refresh = "step" if report.refresh_interval == 1 else f"{report.refresh_interval:g} steps"
    settings = f"with {convention} momentum {report.momentum:g} and a refresh every {refresh}"
    if report.circular:
        return (
            f"This log cannot tell: {settings}, a curvature fitted to a lagged curve meets the rule whatever it is, so "
            f"the probabilities below hold by construction."
        )
    m = worst.margin
    verdict = "stable" if worst.probability_stable >= 0.5 else "not stable"
    share = max(worst.probability_stable, 1.0 - worst.probability_stable)
    return (
        f"The settings are {verdict} with probability {probability_text(share)}, {settings}: by the strictest of three "
        f"models of lag ({_NAMES[worst.lag_model]}) the learning rate could be "
        f"{digits(m.median, '.3g')} times as large {span(m, '.3g')} ({m.level:.0%})."
    )


def _table(report: StabilityReport) -> Table:
    def line(v: Verdict) -> tuple[Cell, ...]:
        return (
            words(_NAMES[v.lag_model], term="lag"),
            number(digits(v.threshold)),
            number(digits(v.margin.median, ".3g")),
            number(span(v.margin, ".3g")),
            number(probability_text(v.probability_stable)),
        )

    g = report.gain
    heads = head(
        "model of lag",
        Cell("largest stable gain", term="gain g"),
        Cell("margin", term="margin"),
        Cell(f"{report.level:.0%} interval", term="interval"),
        "P(stable)",
    )
    caption = f"Gain g of this run: {digits(g.median, '.3g')} {span(g, '.3g')} ({report.level:.0%})"
    return Table(caption, heads, tuple(map(line, (report.rule, report.delay, report.hold))))
