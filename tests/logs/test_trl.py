"""TRL: trainer_state.json, output directories and checkpoints, closing lines."""

import json

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read, trl_row, trl_state

TENS = [10, 20, 30, 40, 50]
ROWS = [trl_row(s, 0.1 + 0.005 * s) for s in TENS]
STATE = "trainer_state.json"


def saved(write, last: int, place: str) -> None:
    write(f"out/{place}{STATE}", trl_state([trl_row(s, 0.5) for s in range(5, last + 1, 5)]))


def test_output_directory_takes_the_highest_checkpoint(write, tmp_path):
    for last in (10, 20, 100):
        saved(write, last, f"checkpoint-{last}/")
    run = read_log(tmp_path / "out")
    assert_read(run, "checkpoint-100", name="out")
    assert run.step[-1] == 100
    assert read_log(tmp_path / "out" / "checkpoint-20").name == "out"
    write(f"out/checkpoint-200/{STATE}", json.dumps(trl_state(ROWS))[:300])  # cut off
    run = read_log(tmp_path / "out")
    assert_read(run, "checkpoint-200")
    assert run.step[-1] == 100


@pytest.mark.parametrize(("top", "expected"), [(50, 50), (20, 30)])
def test_the_state_of_the_directory_itself_competes(write, tmp_path, top, expected):
    saved(write, 30, "checkpoint-30/")
    saved(write, top, "")
    assert read_log(tmp_path / "out").step[-1] == expected


def test_rows_without_a_rollout_tell_the_refresh_interval(write):
    rows = [trl_row(s, 0.3 + 0.01 * s) for s in range(1, 25)]
    of_rollouts = ("reward", "reward_std", "frac_reward_zero_std", "rewards/accuracy/mean")
    rows = [{k: v for k, v in r.items() if r["step"] % 4 == 1 or k not in of_rollouts} for r in rows]
    run = read_log(write(STATE, trl_state(rows, logging_steps=1)))
    assert_read(run, step=range(1, 25), settings={"refresh_interval": (4, "logged")})
    assert np.isfinite(run.reward).sum() == 6


def test_the_end_of_a_run_is_known_by_its_closing_line_and_not_before_it():
    rows = [{"step": s, "reward": 0.1 * s, "completions/mean_length": 50.0} for s in range(1, 6)]
    closing = {"step": 5, "train_runtime": 100.5, "train_loss": 0.01}
    run = read_log([*rows, closing])
    assert run.settings.total_steps.given == 5.0
    assert run.until(5).settings.total_steps == run.settings.total_steps
    assert run.until(4).settings.total_steps.value is None
    assert read_log(rows).settings.total_steps.value is None
    assert read_log([*rows, closing], settings={"total_steps": 9}).until(4).settings.total_steps.given == 9.0
