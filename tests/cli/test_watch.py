"""`bayes-grpo watch`: lines, JSON, exit codes, and a real process that is interrupted."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.command import call


def write(log: Path, n: int, lost: bool = False) -> None:
    """A reward that rises, and is lost in its last third if asked."""
    step = np.arange(1.0, n + 1.0)
    reward = 0.8 - 0.6 * np.exp(-step / 15.0) + 0.02 * np.random.default_rng(3).standard_normal(n)
    if lost:
        reward -= 0.7 * np.clip((step - 0.65 * n) / 8.0, 0.0, 1.0)
    log.write_text("".join(json.dumps({"step": int(s), "reward": r}) + "\n" for s, r in zip(step, reward, strict=True)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def watched(log, tmp_path):
    """Calls the command with a state of its own."""
    return lambda *words: call("watch", log, "--state", tmp_path / "state.json", *words)


def test_a_log_without_a_reward_is_refused_in_words_of_the_command(log, watched):
    log.write_text("".join(json.dumps({"step": n, "loss": 0.1, "mood": n / 9}) + "\n" for n in range(9)))
    for done in (watched("--once"), call("batch", log)):
        assert "--column reward=KEY, if it is among mood" in " ".join((done.out + done.err).split())
        assert "columns=" not in done.out + done.err


def test_one_look_is_one_line(log, watched):
    write(log, 40)
    done = watched("--once", "--horizon", 60)
    assert done.code == 0, done.err
    (line,) = done.out.splitlines()
    assert line.startswith("Step 40, 40 rows. ")
    assert " at step 60, " in line
    assert len(line) < 400


def test_what_cannot_be_watched_ends_with_3_and_a_wrong_flag_with_2(log, tmp_path, watched):
    for words, said in (
        (("watch", tmp_path / "nowhere" / "log.jsonl"), "check the path"),
        (("watch", log, "--once"), "expected a log, found none"),
        (("watch", tmp_path, "--once"), "log"),
        (("watch", log, "--interval", 0), "--interval: expected seconds above 0"),
        (("watch", log, "--webhook", "host"), "--webhook: expected"),
        (("watch", log, "--cost-per-step", 1), "--value-per-reward: found a cost without a value"),
    ):
        done = call(*words, "--state", tmp_path / "state.json")
        assert done.code == (2 if said.startswith("--") else 3), words
        assert said in done.err
        assert len(done.err.splitlines()) == 1
    log.write_text("Prose, not a log.\n")
    assert "found no rewards" in watched("--once").err
