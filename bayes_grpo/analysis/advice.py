"""Advice on a run: its status from the diagnosis, combined with the forecast and the costs, free of contradictions.

A failure comes first: the forecast of a failing run is no advice, and its sentence is conditional on no change. For a
run that does not fail, the forecast shows whether a gain is left, and the decision, where costs are known, whether it
is worth the cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import percent
from bayes_grpo.diagnosis.status import ALARMING, GO_BACK, START_OVER, Status, StatusWord

if TYPE_CHECKING:
    from bayes_grpo.decision.result import Decision
    from bayes_grpo.forecasting.summary import ForecastSummary

LIKELY = 0.8
"""Probability from which on a forecast's gain, or its lack, is a reason to act."""
UNCHANGED = "If nothing changes: "


def advised(status: Status, ahead: ForecastSummary | None = None, decision: Decision | None = None) -> Status:
    """The status given what is to come.

    Args:
        status: Of the diagnosis.
        ahead: The forecast; None without one.
        decision: What stopping is worth; None without costs.
    """
    if status.alarming:
        return status
    if decision is not None:
        return _priced(status, decision)
    if ahead is None:
        return status
    chance = f"{percent(ahead.p_gain)} chance of a gain above {ahead.threshold:.2g} by step {ahead.until:g}"
    evidence = f"{status.evidence} and the forecast"
    if status.status == "done" and ahead.p_gain >= LIKELY:
        return replace(status, status="fine", action=f"go on: {chance}.", evidence=evidence)
    if status.status == "fine":
        do = f"no further gain expected: {chance}." if ahead.p_gain <= 1.0 - LIKELY else f"go on: {chance}."
        return replace(status, action=do, evidence=evidence)
    return status


def _priced(status: Status, decision: Decision) -> Status:
    """What the costs say of a run that does not fail."""
    evidence = f"{status.evidence} and the costs given"
    if decision.back is not None:
        return replace(status, action=_small(decision.back.sentence), evidence=evidence)
    if status.status == "watch" and not status.action.startswith("go on"):
        return status  # what was found is to be looked at, whatever further steps are worth
    pays = f"{percent(decision.probability_pays)} chance that going on pays"
    if decision.choice is not None and decision.stops_now:
        do = f"stop: {pays}; take the checkpoint of step {decision.choice.step:g}."
        return status if status.status == "done" else replace(status, action=do, evidence=evidence)
    if decision.recommended > decision.now:
        do = f"go on to step {decision.recommended:g}: {pays}."
        return replace(status, status=_moving(status), action=do, evidence=evidence)
    if status.status == "done":
        return status
    return replace(status, action=f"stop: no later step is expected to pay; {pays}.", evidence=evidence)


def _moving(status: Status) -> StatusWord:
    return "fine" if status.status == "done" else status.status


def given(status: Status | None, sentence: str) -> str:
    """A sentence of forecast or decision under a status; if that says stop, it is what comes without a change."""
    stops = status is not None and (status.alarming or (status.status == "watch" and status.action.startswith("stop")))
    if not stops or not sentence or sentence.startswith((GO_BACK, START_OVER)):
        return sentence
    return f"{UNCHANGED}{_small(sentence)}"


def forecast_given(status: Status, summary: ForecastSummary) -> ForecastSummary:
    """A forecast with the status of the run, because no path accounts for a failure under way.

    Args:
        status: Status from the diagnosis of the same rows.
        summary: The forecast; its numbers stay unchanged.

    Returns:
        The summary. Where the run fails or needs watching, its sentence is conditional on no change and a note names
        the finding.
    """
    if status.status not in (*ALARMING, "watch"):
        return summary
    found = f"{status.named}: {status.headline}"
    notes = (f"{found} What to do about it: bayes-grpo diagnose", *summary.notes)
    return replace(summary, sentence=given(status, summary.sentence), notes=notes)


def _small(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"
