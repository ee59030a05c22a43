"""Settings, flags and costs that stand in a file or on the command line, beside the log."""

import json

import pytest

from bayes_grpo.cli.defaults import defaults_for
from bayes_grpo.common.errors import SettingError
from tests.helpers.command import call

PARAMETERS = {"forecast": ["log", "until", "cost_per_step", "value_per_reward", "format_"], "inspect": ["log"]}


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(json.dumps({"step": s, "score_a": 0.1 * s, "score_b": 1.0}) for s in range(1, 9)))
    return path


def test_every_setting_can_be_stated_on_the_command_line(log):
    stated = {"learning_rate": 1e-6, "kl_weight": 0.04, "clip_range": 0.2, "epochs": 2, "model_size": 7}
    flags = [x for name, value in stated.items() for x in ("--set", f"{name}={value}")]
    done = call("inspect", log, "--column", "reward=score_a", *flags, "--total-steps", 90, "--group-size", 4, "--json")
    found = {name: x["value"] for name, x in json.loads(done.out)["settings"].items() if x["provenance"] == "user"}
    assert found == {**stated, "total_steps": 90, "group_size": 4}


def test_flags_and_costs_beside_the_log_are_defaults_that_the_command_line_overrides(log):
    (log.parent / "bayes_grpo.toml").write_text(
        '[settings]\nmodel_size = 3\n[columns]\nreward = "score_a"\n[flags]\nuntil = 40\n[costs]\ncost_per_step = 2.5\n'
    )
    found = json.loads(call("inspect", log, "--json").out)
    assert found["reward"]["key"] == "score_a"
    assert found["settings"]["model_size"]["value"] == 3
    assert json.loads(call("inspect", log, "--column", "reward=score_b", "--json").out)["reward"]["key"] == "score_b"
    assert defaults_for(["forecast", str(log)], PARAMETERS) == {"forecast": {"until": 40, "cost_per_step": 2.5}}
    assert defaults_for(["inspect", str(log.parent)], PARAMETERS) == {"inspect": {}}
    assert defaults_for(["--version"], PARAMETERS) == defaults_for(["forecast", "no such file"], PARAMETERS) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[flags]\non_alarm = "touch pwned"', r"\[flags\] may state .* found 'on_alarm'; give it on the command line"),
        ('[flags]\nwebhook = "http://x"', "found 'webhook'"),
        ('[flags]\nout = "report.html"', "found 'out'"),
        ("[costs]\nuntil = 3", r"\[costs\] may state .* found 'until'"),
        ("flags = 3", r"expected a table \[flags\], found int"),
        ("[flags.until]\na = 1", "expected a number or a text for until"),
    ],
)
def test_a_file_cannot_state_what_runs_or_writes(log, text, said):
    (log.parent / "bayes_grpo.toml").write_text(text)
    with pytest.raises(SettingError, match=said):
        defaults_for(["watch", str(log)], {"watch": ["on_alarm"]})
    assert call("inspect", log, "--column", "reward=score_a").code == 3
