"""Advice on a run: its status from the diagnosis, combined with the forecast and the costs, free of contradictions.

A failure comes first: the forecast of a failing run is no advice, and its sentence is conditional on no change. For a
run that does not fail, the forecast shows whether a gain is left, and the decision, where costs are known, whether it
is worth the cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import percent, probability_text
from bayes_grpo.diagnosis.status import ALARMING, GO_BACK, START_OVER, Status, TopLine

if TYPE_CHECKING:
    from bayes_grpo.decision.result import Decision
    from bayes_grpo.forecasting.summary import ForecastSummary

LIKELY = 0.8
"""Probability from which on a forecast's gain, or its lack, is a reason to act."""
UNCHANGED = "If nothing changes: "


def advised(top: TopLine, ahead: ForecastSummary | None = None, decision: Decision | None = None) -> TopLine:
    """The top line given what is to come.

    Args:
        top: Of the diagnosis.
        ahead: The forecast; None without one.
        decision: What stopping is worth; None without costs.
    """
    if top.alarming:
        return top
    if decision is not None:
        return _priced(top, decision)
    if ahead is None:
        return top
    chance = f"{percent(ahead.p_gain)} chance of a gain above {ahead.threshold:.2g} by step {ahead.until:g}"
    if top.status == "done" and ahead.p_gain >= LIKELY:
        return replace(top, status="fine", action=f"go on: {chance}.", rests_on=f"{top.rests_on} and the forecast")
    if top.status == "fine":
        do = f"no further gain expected: {chance}." if ahead.p_gain <= 1.0 - LIKELY else f"go on: {chance}."
        return replace(top, action=do, rests_on=f"{top.rests_on} and the forecast")
    return top


def _priced(top: TopLine, decision: Decision) -> TopLine:
    """What the costs say of a run that does not fail."""
    rests = f"{top.rests_on} and the costs given"
    if decision.back is not None:
        return replace(top, action=_small(decision.back.sentence), rests_on=rests)
    if top.status == "watch" and not top.action.startswith("go on"):
        return top  # what was found is to be looked at, whatever further steps are worth
    pays = f"going on pays with probability {probability_text(decision.probability_pays)}"
    if decision.choice is not None and decision.stops_now:
        do = f"stop: {pays}; take the checkpoint of step {decision.choice.step:g}."
        return top if top.status == "done" else replace(top, action=do, rests_on=rests)
    if decision.recommended > decision.now:
        do = f"go on to step {decision.recommended:g}: {pays}."
        return replace(top, status=_moving(top), action=do, rests_on=rests)
    if top.status == "done":
        return top
    return replace(top, action=f"stop: no later step is expected to pay; {pays}.", rests_on=rests)


def _moving(top: TopLine) -> Status:
    return "fine" if top.status == "done" else top.status


def given(top: TopLine | None, sentence: str) -> str:
    """A sentence of forecast or decision under a top line; if that says stop, it is what comes without a change."""
    stops = top is not None and (top.alarming or (top.status == "watch" and top.action.startswith("stop")))
    if not stops or not sentence or sentence.startswith((GO_BACK, START_OVER)):
        return sentence
    return f"{UNCHANGED}{_small(sentence)}"


def forecast_given(top: TopLine, summary: ForecastSummary) -> ForecastSummary:
    """A forecast with the status of the run, because no path accounts for a failure under way.

    Args:
        top: Status from the diagnosis of the same rows.
        summary: The forecast; its numbers stay unchanged.

    Returns:
        The summary. Where the run fails or needs watching, its sentence is conditional on no change and a note names
        the finding.
    """
    if top.status not in (*ALARMING, "watch"):
        return summary
    found = f"{top.named}: {top.headline}"
    notes = (f"{found} What to do about it: bayes-grpo diagnose", *summary.notes)
    return replace(summary, sentence=given(top, summary.sentence), notes=notes)


def _small(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"
