"""Records of training and of evaluation in one file, and scores of which lower is better."""

from __future__ import annotations

import pytest

from bayes_grpo import diagnose, read_log

STEPS = range(1, 61)


def mixed(train: dict, evaluation: dict) -> list[dict]:
    """A rising reward with an evaluation of the same step, 0.1 below it, after every tenth row."""
    rows = []
    for i in STEPS:
        rows.append({**train, "step": i, "reward": 0.01 * i, "loss": 0.1})
        if i % 10 == 0:
            rows.append({**evaluation, "step": i, "reward": 0.01 * i - 0.1, "accuracy": 0.5})
    return rows


@pytest.mark.parametrize(
    ("train", "evaluation"),
    [
        ({"is_eval": False}, {"is_eval": True}),
        ({"record": "rollout"}, {"record": "heldout"}),
        ({"dataset": "gsm8k_train"}, {"dataset": "gsm8k_test"}),
    ],
)
def test_a_record_of_an_evaluation_never_takes_the_place_of_one_of_training(write, train, evaluation):
    run = read_log(write("log.jsonl", mixed(train, evaluation)))
    assert run.reward.tolist() == pytest.approx([0.01 * i for i in STEPS])
    assert run.eval_step.tolist() == [10, 20, 30, 40, 50, 60]
    assert run.eval_reward.tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert not any("the last record" in note for note in run.notes)


def violations(first: float, last: float) -> list[dict]:
    """A rising reward with a score logged every fifth row that goes from one value to another."""
    rows = [{"step": i, "reward": 0.2 + 0.01 * i} for i in STEPS]
    for i in range(0, len(rows), 5):
        rows[i]["heldout_violation_rate"] = first + (last - first) * i / len(rows)
    return rows


def test_a_rate_of_violations_that_falls_is_a_score_that_rises(write):
    named = {"heldout": "heldout_violation_rate"}
    run = read_log(write("falls.jsonl", violations(0.5, 0.0)), columns=named)
    assert run.eval_reward[0] == pytest.approx(0.5)
    assert run.eval_reward[-1] > 0.9
    assert run.keys["eval_reward"] == "1 - heldout_violation_rate"
    assert any("lower is better" in note for note in run.notes)
    assert diagnose(run).status.status == "fine"
    worse = read_log(write("grows.jsonl", violations(0.0, 0.5)), columns=named)
    assert diagnose(worse).status.status != "fine"
