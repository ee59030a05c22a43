"""Whether the run's own settings are stable."""

from __future__ import annotations

import math

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.planning.question import RISK
from bayes_grpo.planning.result import StabilityReport, Verdict
from bayes_grpo.report.answer import Found
from bayes_grpo.report.page import Cell, PageTable, Part, Section, head, number, words
from bayes_grpo.report.sections.common import digits, nothing, span
from bayes_grpo.report.svg import Pictures
from bayes_grpo.risk.change import Change
from bayes_grpo.risk.failing import p_fails

KEY, TITLE, QUESTION = "stability", "Stability", "Are learning rate, momentum and lag on the safe side?"
_FACTORS = (0.5, 1.0, 2.0, 4.0)
"""Times the present learning rate of which the page says how probably they fail."""
_FAILED = (
    "This run fails, so its own settings are not on the safe side, whatever margin a curve fitted to it shows. Of runs "
    "that failed, the table says how probably another learning rate fails too."
)
_NAMES = {
    "rule": "published rule",
    "delay": "gradients always as old as the refresh interval, exact",
    "hold": "policy held between refreshes, exact",
}


def section(found: Found, pictures: Pictures) -> Section:
    """The section on stability, given how the run stands."""
    answer, top = found.stability, found.top
    if answer.value is None:
        return nothing(KEY, TITLE, QUESTION, answer.reason)
    report, note = answer.value
    failed = top is not None and top.alarming and top.finding == "dynamical_instability"
    lines = [f"Without lag, oscillation sets in at a gain of {report.onset:.3g}."]
    if note:
        lines.append(f"Curvature: {note}.")
    lines.append(
        "The margins count in the curvature that the reward shows, and foresee no border by themselves: directions "
        "that the reward does not feel may be steeper. The probability rests on others' runs."
    )
    tell = (
        "A measured curvature of the stiffest direction takes the place of what others' runs tell: bayes-grpo "
        "stability --curvature."
    )
    parts = [Part("What would tell more", (tell,)), Part("What it rests on", tuple(lines))]
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=_FAILED if failed else _answer(report),
        tone="alarm" if failed or report.failing.p > 0.5 else "doubt" if report.failing.p > RISK else "good",
        tables=(_rates(report.rate, failed), *(() if failed else (_table(report),))),
        parts=tuple(parts),
        terms=("lag", "momentum"),
    )


def _answer(report: StabilityReport) -> str:
    convention = "heavy-ball" if report.convention == "heavy_ball" else "EMA (Adam)"
    refresh = "step" if report.refresh_interval == 1 else f"{report.refresh_interval:g} steps"
    settings = f"{convention} momentum {report.momentum:g} and a refresh every {refresh}"
    low, high = (probability_text(1.0 - x) for x in (report.failing.interval.high, report.failing.interval.low))
    return (
        f"Another run with these settings ({settings}) is stable with probability "
        f"{probability_text(1.0 - report.failing.p)} [{low}, {high}] ({report.failing.interval.level:.0%}), if this "
        f"one worked: {report.failing.rests}."
    )


def _rates(rate: float | None, failed: bool) -> PageTable:
    """What other learning rates than a run's would do, by the function that `bayes-grpo plan` asks."""

    def line(factor: float) -> tuple[Cell, ...]:
        failing = p_fails(Change(learning_rate=math.log(factor)), rate=rate, failed=failed)
        low, high = (probability_text(x) for x in (failing.interval.low, failing.interval.high))
        return (
            number(f"{factor:g}"),
            number(probability_text(failing.p)),
            number(f"[{low}, {high}]"),
            words(failing.rests),
        )

    heads = head("learning rate, times the present", "P(fails)", Cell("90% interval", term="interval"), "rests on")
    return PageTable("Other learning rates, all else as it is", heads, tuple(map(line, _FACTORS)))


def _table(report: StabilityReport) -> PageTable:
    def line(v: Verdict) -> tuple[Cell, ...]:
        return (
            words(_NAMES[v.lag_model], term="lag"),
            number(digits(v.threshold)),
            number(digits(v.margin.median, ".3g")),
            number(span(v.margin, ".3g")),
        )

    g = report.gain
    heads = head(
        "model of lag",
        Cell("largest stable gain", term="gain g"),
        Cell("margin", term="margin"),
        Cell(f"{report.level:.0%} interval", term="interval"),
    )
    caption = f"Gain g of this run: {digits(g.median, '.3g')} {span(g, '.3g')} ({report.level:.0%})"
    return PageTable(caption, heads, tuple(map(line, (report.rule, report.delay, report.hold))))
