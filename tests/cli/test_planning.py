"""The commands for before a run: simulate and plan."""

import json

import pytest

from bayes_grpo.probing.file import save_probes
from tests.helpers.command import call
from tests.helpers.probes import noisy_probes


def test_existing_directory_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    code, _, err = call("simulate", "plateau", "--out", tmp_path)
    assert code == 3
    assert "expected a new directory" in err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learning-rate", 1e-6], "expected a log, a stiffness or a probe"),
        (["absent.nc"], "absent.nc: no such file"),
        (["--stiffness", 1, "--probe", "{probe}"], "--probe: expected one of --stiffness and --probe"),
        (["--probe", "{probe}", "--learning-rate", 1e-6, "--momentum", 1], "--momentum: expected values"),
        (["--probe", "{probe}", "--learning-rate", 1e-6, "--refresh", 0], "--refresh: expected at least 1"),
    ],
)
def test_impossible_settings(words, message, probe_file):
    code, out, err = call("plan", *(str(x).format(probe=probe_file) for x in words))
    assert code == (2 if message.startswith("--") else 3)
    assert out == ""
    assert message in err
    assert "Traceback" not in err


@pytest.fixture(scope="module")
def probe_file(tmp_path_factory):
    """A file with one probe."""
    path = tmp_path_factory.mktemp("probes") / "probe.json"
    save_probes(noisy_probes(1), path)
    return path


def test_a_run_that_failed_is_not_safe_at_its_own_settings(tmp_path):
    rewards = [0.2 + 0.5 * (1 - 2.7 ** (-s / 10)) if s < 40 else 0.02 * (s % 3) for s in range(1, 61)]
    log = tmp_path / "a.csv"
    log.write_text("\n".join(["step,reward,learning_rate", *(f"{s},{r},1e-6" for s, r in enumerate(rewards, 1))]))
    words = ("plan", log, "--stiffness", 1.0, "--json")
    assert json.loads(call(*words)[1])["verdict"] == "run_failed"
    lower = json.loads(call(*words, "--learning-rate", 5e-7)[1])
    assert lower["verdict"] == "stable"
    assert lower["changes"][0]["ratio"] == 0.5
