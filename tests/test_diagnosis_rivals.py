"""Rivals of the diagnosis that live in an environment of their own: what they are fed, what their findings name."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bayes_grpo.common.results import json_safe
from bayes_grpo.diagnosis.status import MODES
from benchmarks.lab.learners.public_logs import group_size
from benchmarks.status.diagnosis_rivals import ALARMING, alarms_of, as_given, external
from benchmarks.status.peers.rival_alarms import (
    MODES_OF,
    OTHER,
    PACKAGES,
    RLDOCTOR,
    RLPROBE,
    RLWATCH,
    fed,
    modes_of,
    records,
)
from tests.helpers.runs import make_run, steps

ROWS = 4


@pytest.fixture
def run():
    return make_run(
        steps(ROWS),
        [0.1, np.nan, 0.3, 0.4],
        signals={"entropy": 1.0, "clip_ratio": 0.2, "gold_reward": [0.0, 0.1, np.nan, 0.3]},
        evals={2.0: 0.5, 2.5: 0.6},
        components={"format": [0.0, 0.0, 1.0, 1.0]},
    )


def given(run, size=None):
    """As the program reads it."""
    return json.loads(json.dumps(json_safe(as_given(run, size)), allow_nan=False))


def test_every_finding_names_a_mode_of_ours():
    assert set(MODES_OF) == set(PACKAGES)
    for rules in MODES_OF.values():
        assert {mode for _, _, mode in rules} <= set(MODES)
    assert OTHER not in MODES


@pytest.mark.parametrize(
    ("package", "name", "text", "modes"),
    [
        ("rldoctor", "entropy_collapse", "Exploration is exhausted", ["policy_concentration"]),
        ("rldoctor", "kl_drift", "KL is 2.1 and accelerating.", ["dynamical_instability"]),
        ("rldoctor", "kl_drift", "the policy is effectively pinned to the reference", [OTHER]),
        ("rldoctor", "length_pathology", "90% of rollouts are truncated", [OTHER]),
        (
            "rldoctor",
            "gradient_pathology",
            "50% of optimiser steps produced exactly zero gradient. 4 large gradient spikes across the run.",
            ["advantage_degeneracy", "dynamical_instability"],
        ),
        ("rldoctor", "plateau", "stopped improving", [OTHER]),
        ("rlprobe", "REWARD_STD_DEATH", "", ["advantage_degeneracy"]),
        ("rlprobe", "TRUNCATION_STARVE", "", [OTHER]),
        ("rlwatch", "reward_mean_drift", "drifting upward monotonically", ["reward_hacking"]),
        ("rlwatch", "a detector of tomorrow", "", [OTHER]),
    ],
)
def test_what_a_finding_names(package, name, text, modes):
    assert modes_of(package, name, text) == modes


def test_a_row_holds_what_was_logged_in_it(run):
    columns = given(run)["columns"]
    assert fed(columns, RLPROBE, 0) == {"reward_mean": 0.1, "entropy_mean": 1.0, "clip_fraction": 0.2}
    assert fed(columns, RLWATCH, 1) == {"entropy": 1.0}
    assert fed({"loss": [math.inf]}, RLWATCH, 0) == {}


def test_names_of_signals_are_ours_and_no_two_get_one_name():
    for names in (RLDOCTOR, RLPROBE, RLWATCH):
        assert len(set(names.values())) == len(names)
        assert {"reward", "reward_std", "entropy", "kl", "grad_norm", "loss"} <= set(names)


def test_evaluations_have_rows_of_their_own(run):
    rows = records(given(run))
    assert [r["step"] for r in rows] == [1.0, 2.0, 2.5, 3.0, 4.0]
    assert [r.get("eval_score") for r in rows] == [None, 0.5, 0.6, None, None]
    assert [r.get("reward") for r in rows] == [0.1, None, None, 0.3, 0.4]
    assert rows[3]["rewards/format/mean"] == 1.0


def test_a_true_reward_stands_in_where_nothing_was_evaluated(run):
    log = given(run) | {"eval_step": [], "eval_reward": []}
    assert [r.get("eval_score") for r in records(log)] == [0.0, 0.1, None, 0.3]
    del log["columns"]["gold_reward"]
    assert not any("eval_score" in r for r in records(log))


def test_notes_are_no_alarms_and_the_first_of_a_mode_counts():
    findings = [
        {"severity": "critical", "step": 9.0, "modes": ["reward_hacking", OTHER]},
        {"severity": "warn", "step": 3.0, "modes": ["reward_hacking"]},
        {"severity": "info", "step": 1.0, "modes": ["policy_concentration"]},
    ]
    assert "info" not in ALARMING
    assert alarms_of(findings) == {"reward_hacking": 3.0, OTHER: 9.0}


def test_findings_of_another_interpreter_become_alarms(run, tmp_path: Path):
    """A stand-in for the interpreter: it finds something in every log of group size 8, and says nothing of others."""
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\ncase "$1" in *rival_alarms.py) ;; *) exit 3;; esac\n'
        'grep -q \'"group_size": 8}, \' "$2" && echo \'{"theirs": [[{"name": "A", "step": 2.0, "severity": "warning", '
        '"modes": ["reward_hacking"]}], []]}\' > "$3"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    assert external([run, run], python, [8, None]) == {"theirs": [{"reward_hacking": 2.0}, {}]}


def test_group_sizes_of_an_index():
    assert [group_size(x) for x in ("8", "4.0", "4 (README says 16)", "", "about 4")] == [8, 4, 4, None, None]
