"""Every kind of finding and action has one template, and JSON carries the records."""

import json
from typing import get_args

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (Action(kind="go_on"), "go on."),
        (
            Action(kind="go_on", step=90.0, reason="costs", numbers={"pays": 0.7}),
            "go on to step 90: 70% chance that going on pays.",
        ),
        (
            Action(kind="change_setting", setting="learning_rate", factor=0.5, numbers={"learning_rate": 1e-5}),
            "lower the learning rate from 1e-05 to 5e-06.",
        ),
        (
            Action(kind="go_back", step=40.0, subject="eval_reward"),
            "stop, and go back to the checkpoint of about step 40, the best by evaluation reward.",
        ),
    ],
)
def test_a_sentence_is_made_of_the_record(action: Action, sentence: str):
    assert action.sentence == sentence


def test_an_onset_a_detail_and_an_end_are_parts_of_a_sentence():
    fell = Finding(kind="signal_fell", signals=("eval_reward",), numbers={"best": 0.6, "now": 0.2})
    signs = Finding(kind="instability_signs", parts=(fell,), probability=0.4)
    assert (signs.mode, signs.sentence) == ("dynamical_instability", "The evaluation reward fell from 0.6 to 0.2.")
    assert Finding(kind="rising", probability=0.65).sentence == "The reward is probably rising; no failure detected."
    assert Finding(kind="rising", probability=0.9).sentence == "The reward is rising; no failure detected."
    flat = Finding(kind="flat", numbers={"start": 0.5, "now": 0.4})
    assert (flat.lead, flat.detail) == ("The reward has not risen.", "From 0.5 to 0.4.")
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
