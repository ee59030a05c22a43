"""Every kind of finding and action has one template, and JSON carries the records."""

import json
from typing import get_args

import numpy as np

from bayes_grpo import diagnose
from bayes_grpo.diagnosis import action_words, finding_words, wording
from bayes_grpo.diagnosis.mode import all_modes
from bayes_grpo.diagnosis.records import Action, ActionKind, Finding, FindingKind
from bayes_grpo.diagnosis.status import Status
from tests.helpers.runs import make_run, steps


def test_kinds_are_those_with_a_template():
    assert set(get_args(FindingKind)) == {*wording.LABELS, *finding_words.KINDS}
    assert set(get_args(ActionKind)) == {name.split()[0] for name in action_words._ACTIONS}
    assert {mode.name for mode in all_modes()} == set(wording.LABELS)


def test_a_sentence_is_made_of_the_record():
    """Of records that no sample in ``samples/`` has."""
    paid = Action(kind="go_on", step=90.0, reason="costs", numbers={"pays": 0.7})
    assert paid.sentence == "go on to step 90: 70% chance that going on pays."
    fell = Finding(kind="signal_fell", signals=("eval_reward",), numbers={"best": 0.6, "now": 0.2})
    flat = Finding(kind="flat", numbers={"start": 0.5, "now": 0.4})
    assert Status("watch", flat, Action(kind="stop"), earlier=(fell,)).past == (
        "Earlier: the evaluation reward fell from 0.6 to 0.2."
    )


def test_json_of_a_diagnosis_needs_no_sentence():
    step = steps(80)
    y = np.where(step < 50, 0.7, 0.1) + 0.01 * np.cos(7.0 * step)
    found = json.loads(json.dumps(diagnose(make_run(step, y)).to_dict(), allow_nan=False))["status"]
    assert found["status"] == "failed"
    assert (found["finding"]["kind"], found["finding"]["mode"]) == ("lost_reward", "dynamical_instability")
    assert found["finding"]["numbers"]["best"] > 0.6 > found["finding"]["numbers"]["now"]
    assert 45.0 < found["finding"]["step"]["median"] < 55.0
    assert (found["action"]["kind"], found["action"]["reason"]) == ("go_back", "finding")
    assert found["action"]["step"] < 50.0
    assert found["actions"][0]["kind"] == "compare_checkpoints"
