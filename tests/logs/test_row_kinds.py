"""Records of training and of evaluation in one file, and scores of which lower is better."""

from __future__ import annotations

import pytest

from bayes_grpo import diagnose, read_log

STEPS = range(1, 61)


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
