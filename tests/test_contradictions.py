"""No two statements about one log exclude each other; the table itself sees those that do."""

import json

import pytest

from benchmarks.contradictions import PAIRS, contradictions, said_of
from tests.helpers.cases import CASES
from tests.helpers.selection import few


@pytest.mark.parametrize("name", few(CASES, "dipped_then_collapsed", "rate_ended"))
def test_what_is_said_of_a_log_is_true_together(name):
    said = said_of(CASES[name]())
    json.dumps(said, allow_nan=False)
    assert contradictions(said) == ()


def _plain(status: str, action: str, **more: object) -> dict[str, object]:
    evidence = {"progress": {"sentence": "growth 0.38", "probability": 0.38}}
    diagnosis = {
        "sentence": "Healthy.",
        "probability": {"dynamical_instability": 0.9},
        "evidence": evidence,
        "remedies": {},
    }
    top = {"status": status, "action": action, "sentence": action, "headline": "", "finding": "dynamical_instability"}
    return {"diagnosis": diagnosis, "top": top, "alarms": [], "stable": None, "fit": {"led": True}, **more}


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
        "growth / growth": _plain("fine", "go on.", fit={"growth": 0.98, "led": False}),
        "alarm / status": _plain("fine", "go on.", alarms=["reward_hacking"]),
        "percent": _plain("fine", "2895% of the entropy."),
        "solved / larger group": _plain("done", "a larger group than 8."),
    }
    for name, said in both.items():
        assert name in contradictions(said), name
    clean = _plain("failing", "stop.")
    assert contradictions(clean) == ()
    assert set(both) <= set(PAIRS)
