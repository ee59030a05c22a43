"""No two statements about one log exclude each other; the table itself sees those that do."""

import json

import pytest

from bayes_grpo.diagnosis.facts import Facts
from benchmarks.contradictions import PAIRS, contradictions, past_rows, said_of
from tests.helpers.cases import CASES
from tests.helpers.selection import few


@pytest.mark.parametrize("name", few(CASES, "dipped_then_collapsed", "rate_ended"))
def test_what_is_said_of_a_log_is_true_together(name):
    said = said_of(CASES[name]())
    json.dumps(said, allow_nan=False)
    assert contradictions(said) == ()


def _plain(status: str, action: str, **more: object) -> dict[str, object]:
    evidence = {"progress": "the train reward changed by 0.1; 97% chance that the rise exceeds one row's noise"}
    diagnosis = {
        "sentence": "No failure.",
        "probability": {"dynamical_instability": 0.9},
        "evidence": evidence,
        "remedies": {},
    }
    top = {"status": status, "action": action, "sentence": action, "headline": "", "finding": "dynamical_instability"}
    top |= {"probability": 0.9}
    return {
        "past_row": [],
        "diagnosis": diagnosis,
        "status": top,
        "alarms": [],
        "stable": None,
        "fit": {"led": True},
        **more,
    }


def _headed(headline: str, **more: object) -> dict[str, object]:
    said = _plain("watch", "look.", **more)
    return {**said, "status": {**said["status"], "headline": headline}}  # type: ignore[dict-item]


DECISION = {
    "latest": 45.0,
    "now": 40.0,
    "recommended": 45.0,
    "sentence": "Stop at step 45: net value 2.25 [-6.12, -1.7]",
}


def test_each_pair_is_seen_where_it_stands():
    both = {
        "stable / unstable": _plain("failing", "stop.", stable=0.97),
        "growth / collapse": _plain("failed", "stop.", fit={"growth": 0.99, "led": False}),
        "rise / failure": _plain("failing", "lower.", forecast={"sentence": "it is expected to rise", "p_gain": 0.9}),
        "stop / go on": _plain("failed", "stop, and go back.", decision=DECISION),
        "interval / mean": _plain("fine", "go on.", decision=DECISION),
        "end / stop": _plain("fine", "go on.", decision=DECISION, rate_now=0.1, schedule_ends=40.7),
        "rest / rise": _plain("done", "stop.", forecast={"sentence": "", "p_gain": 0.9}),
        "growth / growth": _headed("The reward has not clearly risen", fit={"growth": 0.995, "led": False}),
        "risen / risen": _headed("The reward has not clearly risen"),
        "held-out / calm": _plain("fine", "go on.", held_out=True),
        "action / table": _plain("fine", "go on.", past_row=["go on"]),
        "alarm / status": _plain("fine", "go on.", alarms=["reward_hacking"]),
        "percent": _plain("fine", "2895% of the entropy."),
        "solved / larger group": _plain("done", "larger groups than 8."),
    }
    for name, said in both.items():
        assert name in contradictions(said), name
    assert past_rows(["raise the learning rate to 2 times its value.", "go on."], Facts(rows=5)) == ["go on"]
    clean = _plain("failing", "stop.")
    assert contradictions(clean) == ()
    assert set(both) <= set(PAIRS)
