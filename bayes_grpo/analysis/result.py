"""The parts of an analysis, each a value or the reason why there is none, and the status given all of them.

A failure comes first: the forecast of a failing run is no advice, and its sentence is conditional on no change. For a
run that does not fail, the forecast shows whether a gain is left, and the decision, where costs are known, whether it
is worth the cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from bayes_grpo.common.document import TONES, Document, sentence_case
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.records import Action, ActionKind
from bayes_grpo.diagnosis.status import ALARMING, Status
from bayes_grpo.signals.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from bayes_grpo.checking import Check
    from bayes_grpo.comparison.result import Comparison
    from bayes_grpo.decision.result import Decision
    from bayes_grpo.diagnosis.result import Diagnosis
    from bayes_grpo.fitting.result import Fit
    from bayes_grpo.fitting.summary import Summary
    from bayes_grpo.forecasting.forecast import Forecast
    from bayes_grpo.forecasting.summary import ForecastSummary
    from bayes_grpo.planning.result import Plan

_LONGEST = 600
"""Characters of a reason."""


@dataclass(frozen=True, eq=False)
class Part[T]:
    """One part of an analysis.

    Attributes:
        value: The result; None where there is none.
        reason: Why there is none; "" where there is one.
        seconds: Time that it took.
        error: What went wrong; None where nothing did, or nothing was computed.
    """

    value: T | None = None
    reason: str = "Left out on request."
    seconds: float = 0.0
    error: Exception | None = None

    @classmethod
    def of(cls, make: Callable[[], T]) -> Part[T]:
        """The computed part, or the reason why it is missing."""
        begin = time.perf_counter()
        try:
            return cls(make(), "", time.perf_counter() - begin)
        except Exception as error:  # an unexpected error in one part must not stop the others
            known = isinstance(error, BayesGrpoError)
            text = str(error) if known else f"Failed unexpectedly: {type(error).__name__}: {error}"
            return cls(None, plain(text, _LONGEST), time.perf_counter() - begin, error)

    @property
    def required(self) -> T:
        """The value.

        Raises:
            Exception: There is none: the error that cost it.
        """
        if self.value is None:
            raise self.error or BayesGrpoError(self.reason)
        return self.value


class Fitted(NamedTuple):
    """A fit and its summary."""

    fit: Fit
    summary: Summary


class Forecasted(NamedTuple):
    """A forecast: its paths, its numbers, and when to stop; ``undecided`` says why a decision is missing."""

    forecast: Forecast
    summary: ForecastSummary
    decision: Decision | None
    undecided: str = ""


@dataclass(frozen=True, eq=False)
class Analysis:
    """Analysis of a run.

    Attributes:
        fit: A regime's posterior.
        regimes: Regimes compared.
        check: What the fit misses.
        forecast: The rewards to come, and when to stop.
        diagnosis: Which failure is under way.
        stability: How stable the run's settings are.
    """

    fit: Part[Fitted] = Part()
    regimes: Part[Comparison] = Part()
    check: Part[Check] = Part()
    forecast: Part[Forecasted] = Part()
    diagnosis: Part[Diagnosis] = Part()
    stability: Part[Plan] = Part()

    @property
    def status(self) -> Status | None:
        """How the run stands, given all that was found; None without a diagnosis."""
        diagnosis, ahead = self.diagnosis.value, self.forecast.value
        if diagnosis is None:
            return None
        return diagnosis.status if ahead is None else advised(diagnosis.status, ahead.summary, ahead.decision)


LIKELY = 0.8
"""Probability from which on a forecast's gain, or its lack, is a reason to act."""
UNCHANGED = "If nothing changes: "


def advised(status: Status, ahead: ForecastSummary | None = None, decision: Decision | None = None) -> Status:
    """The status of a diagnosis given what is to come, and what stopping is worth where costs are known."""
    if status.alarming:
        return status
    priced = None if decision is None else decision_action(decision)
    if priced is not None:
        return _priced(status, priced)
    if ahead is None:
        return status
    action = replace(forecast_action(ahead.p_gain, ahead.threshold, ahead.until), ended=status.action.ended)
    if status.status == "done" and ahead.p_gain >= LIKELY:
        return replace(status, status="fine", action=action)
    return replace(status, action=action) if status.status == "fine" else status


def forecast_action(p_gain: float, threshold: float, until: float) -> Action:
    """The action that a forecast alone recommends."""
    kind: ActionKind = "go_on"
    if p_gain < THRESHOLDS.probable:
        kind = "go_on_if_cheap" if p_gain > 1.0 - LIKELY else "no_further_gain"
    numbers = {"p_gain": p_gain, "threshold": threshold, "until": until}
    return Action(kind=kind, step=until, reason="forecast", numbers=numbers)


def decision_action(decision: Decision) -> Action | None:
    """The action that a decision recommends; None without a cost of a step."""
    if decision.back is not None:
        return decision.back.action
    if decision.recommended is None:
        return None
    numbers = {"pays": decision.probability_pays}
    if not decision.stops_now:
        kind: ActionKind = "go_on_for_rare_gain" if decision.at_odds else "go_on"
        return Action(kind=kind, step=decision.recommended, reason="costs", numbers=numbers)
    if decision.choice is not None:
        return Action(kind="take_checkpoint", step=decision.choice.step, reason="costs", numbers=numbers)
    return Action(kind="stop", step=decision.now, reason="costs", numbers=numbers)


def _priced(status: Status, action: Action) -> Status:
    """The status of a run that does not fail, given the action that the costs recommend."""
    if action.kind in ("go_back", "start_over"):
        return replace(status, action=action)
    if status.status == "watch" and not status.action.goes_on:
        return status  # what was found is to be looked at, whatever further steps are worth
    if action.goes_on:
        return replace(status, status="fine" if status.status == "done" else status.status, action=action)
    return status if status.status == "done" else replace(status, action=action)


def conditional(status: Status | None) -> bool:
    """True where a status says to stop, so that a forecast is what comes without a change."""
    return status is not None and (status.alarming or (status.status == "watch" and status.action.stops))


def conditional_sentence(status: Status | None, sentence: str) -> str:
    """A sentence of a forecast under a status; if that says to stop, it is what comes without a change."""
    if not sentence or not conditional(status):
        return sentence
    return f"{UNCHANGED}{sentence[:1].lower()}{sentence[1:]}"


def conditional_decision(status: Status | None, decision: Decision) -> str:
    """The sentence of a decision likewise, unless it goes back too."""
    return decision.sentence if decision.back is not None else conditional_sentence(status, decision.sentence)


_RISES = ("rising", "rising_on", "risen")
"""Kinds of findings of a reward that has been rising."""


def conditional_forecast(status: Status, summary: ForecastSummary) -> ForecastSummary:
    """A forecast with the status of the run, because no path accounts for a failure under way.

    Args:
        status: Status from the diagnosis of the same rows.
        summary: The forecast; its numbers stay unchanged.

    Returns:
        The summary. Where the run fails or needs watching, its sentence is conditional on no change and a note names
        the finding. Where it rises, and the forecast sees no likely gain, both are put next to each other.
    """
    if status.status not in (*ALARMING, "watch"):
        if status.finding.kind not in _RISES or summary.p_gain >= THRESHOLDS.probable:
            return summary
        return replace(summary, so_far=f"So far: {sentence_case(status.headline, upper=False)}")
    found = f"{status.named}: {status.headline}"
    notes = (f"{found} What to do about it: bayes-grpo diagnose", *summary.notes)
    return replace(summary, sentence=conditional_sentence(status, summary.sentence), notes=notes)


def conditional_document(document: Document, status: Status) -> Document:
    """A document under the status of its run: a failure comes first, and the answer is conditional."""
    first = status.action.reason == "costs" or conditional(status)
    own = document.do and not (document.conditional and first)
    do = document.do if own else status.action.sentence
    if not status.alarming:
        return replace(document, do=do)
    detail = sentence_case(status.finding.detail)
    return replace(
        document,
        answer=sentence_case(status.finding.lead),
        why=" ".join(x for x in (detail, unless_changed(document, status).answer) if x),
        do=do,
        status=status.status,
        chance=status.chance,
        tone=TONES[status.status],
    )


def unless_changed(document: Document, status: Status | None) -> Document:
    """The same document, its answer under a condition where the run fails."""
    if status is None or not status.alarming or not document.conditional:
        return document
    return replace(document, answer=f"{UNCHANGED}{sentence_case(document.answer, upper=False)}")
