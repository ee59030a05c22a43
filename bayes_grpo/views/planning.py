"""Stability of settings, and the next run, as documents."""

from __future__ import annotations

import math
from functools import partial

from bayes_grpo.common.document import (
    Cell,
    Document,
    Drawing,
    Tabular,
    chance,
    number,
    ranged,
    section,
    sentence_case,
    shows,
    span,
    split,
    table,
    words,
)
from bayes_grpo.common.intervals import LEVEL, Interval, percent, probability_text
from bayes_grpo.common.text import every
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.planning.planned import WORDS, Candidate, Plan, amount_of
from bayes_grpo.planning.stability import StabilityReport
from bayes_grpo.views.plots.runs import label, plot_plan

_LAGS = {"rule": "published rule", "hold": "policy frozen between refreshes"}
_LISTED = 6
"""Candidates in the table besides the present settings."""


@shows(StabilityReport)
def stability_document(r: StabilityReport) -> Document:
    """Whether settings are stable, by each model of lag."""
    i, p = r.failure_risk.interval, 1.0 - r.failure_risk.p
    risky = r.circular or r.failure_risk.p > THRESHOLDS.safe
    convention = "heavy-ball" if r.convention == "heavy_ball" else "EMA (Adam)"
    return Document(
        title="Stability",
        about=f"{convention} momentum {r.momentum:g}, refresh {every(r.refresh_interval)}, "
        f"lag exposure {r.lag_exposure:g}",
        answer=f"Stable with probability {percent(p)} [{percent(1.0 - i.high)}, {percent(1.0 - i.low)}].",
        why=sentence_case(f"{r.failure_risk.evidence}."),
        do="measure the stiffness of the update, or name a low-lag run." if r.circular else "",
        tone="alarm" if r.failure_risk.p > 0.5 else "doubt" if risky else "good",
        table=_lags(r),
        sections=(section("Details", r.sentence.removeprefix(f"{r.stable}. ")),),
        unchecked="Caution: circular margins, because the curvature was fitted to a lagged curve" if r.circular else "",
        docs="how/plan",
    )


def _lags(r: StabilityReport) -> Tabular:
    def short(i: Interval) -> str:
        return f"{i.median:.4g}" if i.low == i.high else ranged(i)

    rows = (
        (
            words(_LAGS[v.lag_model], term="lag"),
            v.threshold,
            number(short(v.margin)),
            number("circular" if r.circular else "unknown")
            if math.isnan(v.probability_stable)
            else chance(v.probability_stable),
        )
        for v in (r.rule, r.hold)
    )
    heads = ("model of lag", Cell("largest stable g", term="gain g"), Cell("margin", term="margin"), "P(stable)")
    note = f"g = learning rate × curvature = {short(r.gain)}; {LEVEL:.0%} intervals."
    return table("Margins", heads, rows, note)


@shows(Plan)
def plan_document(plan: Plan) -> Document:
    """The settings of the next run, with their expected gain and risk."""
    now = ", ".join(
        f"{WORDS[name]} {amount_of(name, value)}"
        if plan.rate_known or name != "learning_rate"
        else "learning rate unknown (rates are multiples of it)"
        for name, value in plan.present.items()
    )
    return Document(
        title=plan.run,
        about=f"signal {plan.signal}; present settings: {now}",
        answer=plan.answer,
        why=plan.why,
        tone="alarm" if plan.present_hacked else "" if plan.verdict == "change" else "doubt",
        table=_candidates(plan),
        plot=Drawing(partial(plot_plan, plan), f"Gains of the candidates. {plan.answer}"),
        sections=(
            section("Candidates", tables=(_costs(plan),)),
            section("Evidence", sentence_case(f"{plan.changes(plan.recommended)}: {plan.recommended.evidence}")),
            section("Cautions", *plan.cautions, tone="doubt"),
        ),
        assumed=sentence_case("" if plan.reference_runs is None else plan.reference_runs.sentence, upper=False),
        unchecked=f"Caution: {split(plan.cautions[0])[0]}" if plan.cautions else "",
        docs="how/plan",
        conditional=False,
    )


def _shown(plan: Plan) -> list[Candidate]:
    shown = list(plan.candidates[:_LISTED])
    return shown if plan.kept in shown else [*shown, plan.kept]


def _name(plan: Plan, c: Candidate) -> Cell:
    return words(label(plan, c), mark=c is plan.recommended)


def _candidates(plan: Plan) -> Tabular:
    rows = (
        (
            _name(plan, c),
            number(f"{c.steps:.0f}"),
            number(f"above {plan.shown:.3g}" if math.isnan(c.expected) else f"{c.expected:.3f}"),
            number("not shown" if math.isnan(c.expected_gain) else f"{c.expected_gain:+.3g} {span(c.gain, '+.3g')}"),
            chance(c.p_better),
            chance(c.failure_risk) if c.tried else number("never tried"),
        )
        for c in _shown(plan)
    )
    note = f"Within a cost of {plan.budget:.4g} steps of the present run; means over seeds, {LEVEL:.0%} intervals."
    heads = ("settings", "steps", "reward", "gain", "P(better)", "P(fails)")
    return table("Candidates, best first", heads, rows, note)


def _costs(plan: Plan) -> Tabular:
    def line(c: Candidate) -> tuple[object, ...]:
        fails = f"[{probability_text(c.fails.low)}, {probability_text(c.fails.high)}]" if c.tried else ""
        return _name(plan, c), number("" if math.isnan(c.expected) else span(c.next_run, ".2f")), number(fails)

    heads = ("settings", "one run", "P(fails), interval")
    return table("More about the candidates", heads, map(line, _shown(plan)))
