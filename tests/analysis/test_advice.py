"""One account of a run: what happened leads, a law describes the rows since, no two sentences exclude each other."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import bayes_grpo as bg
from bayes_grpo.analysis.result import UNCHANGED, advised, conditional_decision, conditional_sentence, decision_action
from bayes_grpo.decision.result import Back, Decision
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.status import MEANING, SEVERITY, Status
from tests.decision.test_decision import saturating
from tests.helpers.paths import not_none

FELL = {"best": 0.6, "now": 0.1}
FINE = Status("fine", Finding(kind="rising", probability=0.8), Action(kind="go_on"))
FAILED = Status(
    "failed",
    Finding(kind="lost_reward", signals=("reward",), numbers=FELL, probability=0.9),
    Action(kind="go_back", step=3.0, subject="reward"),
)
REST = Status("done", Finding(kind="at_rest", numbers={"now": 0.8}, probability=0.8), Action(kind="stop"))


def ahead(p_gain: float) -> Any:
    return SimpleNamespace(p_gain=p_gain, threshold=0.01, until=90.0)


def decided(cost: float) -> Decision:
    return bg.decide(saturating(np.full(50, 100.0), np.full(50, 0.3)), cost_per_step=cost, value_per_reward=1.0)


@dataclass(frozen=True)
class Expected:
    sentence: str
    notes: tuple[str, ...] = ("the schedule",)
    p_gain: float = 0.9
    so_far: str = ""


def test_a_forecast_by_itself_says_what_it_does_not_know():
    summary: Any = Expected("the train reward is expected to rise.")
    told = bg.conditional_forecast(FAILED, summary)
    assert told.sentence == UNCHANGED + summary.sentence
    assert told.notes[0].startswith("FAILED (90%): The reward fell from 0.6 to 0.1.")
    assert told.notes[1:] == summary.notes
    stops = replace(FAILED, status="watch", finding=replace(FAILED.finding, probability=0.3))
    assert bg.conditional_forecast(stops, summary).sentence == UNCHANGED + summary.sentence
    watch = replace(stops, action=Action(kind="watch"))
    assert bg.conditional_forecast(watch, summary).sentence == summary.sentence
    assert bg.conditional_forecast(watch, summary).notes[0].startswith("WATCH (30%)")
    assert bg.conditional_forecast(FINE, summary) is summary
    unlikely: Any = replace(summary, p_gain=0.2)
    assert bg.conditional_forecast(FINE, unlikely).so_far == "So far: the reward is rising; no failure detected."
    assert bg.conditional_forecast(REST, unlikely) is unlikely


def test_nothing_that_is_to_come_changes_what_a_failing_run_needs():
    for decision in (None, decided(0.0), decided(1.0)):
        assert advised(FAILED, ahead(0.99), decision) is FAILED
    assert conditional_sentence(FAILED, "The reward rises.") == f"{UNCHANGED}the reward rises."
    stays = decided(1.0)
    assert conditional_decision(FAILED, stays).startswith(UNCHANGED)
    back = replace(stays, back=Back(3.0, 0.2, 0.2))
    assert conditional_decision(FAILED, back).startswith("Stop, and go back to the checkpoint of about step 3: ")
    assert (
        conditional_sentence(FINE, "The reward rises.")
        == conditional_sentence(None, "The reward rises.")
        == "The reward rises."
    )


def test_the_forecast_and_the_costs_say_whether_to_go_on():
    assert advised(FINE, ahead(0.9)).action.sentence == "go on: 90% chance of a gain above 0.01 by step 90."
    unlikely = advised(FINE, ahead(0.4)).action
    assert (unlikely.kind, unlikely.goes_on) == ("go_on_if_cheap", True)
    assert unlikely.sentence == "go on only if its steps are cheap: 40% chance of a gain above 0.01 by step 90."
    assert advised(FINE, ahead(0.1)).action.kind == "no_further_gain"
    assert advised(REST, ahead(0.9)).status == "fine"
    assert advised(REST, ahead(0.5)) is REST
    assert advised(FINE, ahead(0.9), decided(1.0)).action.sentence.startswith("stop: going on is not expected to pay")
    onward = advised(REST, ahead(0.9), decided(1e-6))
    assert (onward.status, onward.action.sentence.startswith("go on to step ")) == ("fine", True)
    watched = replace(FINE, status="watch", action=Action(kind="change_setting", setting="max_completion_length"))
    assert advised(watched, ahead(0.1), decided(1.0)) is watched


def test_a_gain_that_pays_on_average_alone_is_an_action_of_its_own():
    few = np.where(np.arange(50) < 10, 3.0, 0.0)
    decision = bg.decide(saturating(np.full(50, 100.0), few), cost_per_step=1e-4)
    action = not_none(decision_action(decision))
    assert (action.kind, action.goes_on) == ("go_on_for_rare_gain", True)
    assert action.sentence.endswith("only for a rare large gain: it pays on average, and with 20% chance alone.")
    assert advised(FINE, ahead(0.9), decision).action == action
    assert decision_action(bg.decide(saturating(np.full(50, 100.0), few))) is None


def test_the_status_follows_the_decision_and_without_a_cost_the_forecast_alone():
    for cost in (0.0, 1e-6, 1e-3, 1.0):
        decision = decided(cost)
        assert (advised(FINE, ahead(0.9), decision).action.kind == "stop") == decision.stops_now
        assert advised(FINE, ahead(0.9), decision).action.step == decision.recommended
    free = bg.decide(saturating(np.full(50, 100.0), np.full(50, 0.3)))
    for status in (FINE, REST):
        assert advised(status, ahead(0.9), free) == advised(status, ahead(0.9))


def test_every_status_has_a_meaning_and_a_level():
    assert MEANING.keys() == SEVERITY.keys()
    assert FAILED.alarming
    assert not FINE.alarming
    assert FAILED.sentence == (
        "FAILED (90%): The reward fell from 0.6 to 0.1. "
        "Do now: stop, and go back to the checkpoint of about step 3, the best by train reward."
    )
    assert FAILED.to_dict()["meaning"] == FAILED.meaning
