"""Settings and columns in a file next to the log, or on the command line."""

import json

import pytest

from tests.helpers.command import call


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(json.dumps({"step": s, "score_a": 0.1 * s, "score_b": 1.0}) for s in range(1, 9)))
    return path


def test_every_setting_can_be_stated_on_the_command_line(log):
    stated = {
        "group_size": 4,
        "total_steps": 90,
        "learning_rate": 1e-6,
        "kl_weight": 0.04,
        "clip_range": 0.2,
        "epochs": 2,
        "model_size": 7,
    }
    flags = [x for name, value in stated.items() for x in ("--set", f"{name}={value}")]
    done = call("inspect", log, "--column", "reward=score_a", *flags, "--json")
    found = {name: x["value"] for name, x in json.loads(done.out)["settings"].items() if x["provenance"] == "user"}
    assert found == stated


def test_settings_and_columns_beside_the_log_are_those_that_the_command_line_overrides(log):
    (log.parent / "bayes_grpo.toml").write_text('[settings]\nmodel_size = 3\n[columns]\nreward = "score_a"\n')
    found = json.loads(call("inspect", log, "--json").out)
    assert found["reward"]["key"] == "score_a"
    assert found["settings"]["model_size"]["value"] == 3
    assert json.loads(call("inspect", log, "--column", "reward=score_b", "--json").out)["reward"]["key"] == "score_b"
