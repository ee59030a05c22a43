"""Logs of trainers as their own code writes them: rows of several kinds, steps as text, settings as a line."""

import json

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read, trl_row, trl_state


def swift_row(step: int, key: str) -> dict:
    """A row as ms-swift writes it into logging.jsonl."""
    row = trl_row(step, 0.1 + 0.001 * step)
    del row["step"], row["entropy"]
    return {**row, "entropy/mean": 0.6, key: f"{step}/300", "percentage": "5%", "train_speed(s/it)": 24.3}


@pytest.mark.parametrize("key", ["global_step/max_steps", "iteration"])
def test_ms_swift(write, tmp_path, key):
    rows = [swift_row(s, key) for s in (1, *range(5, 35, 5))]
    rows.append({"train_runtime": 9.0, "train_loss": 0.1, key: "30/300"})
    write("out/logging.jsonl", [*rows, {"last_model_checkpoint": "checkpoint-30"}])
    write("out/completions.jsonl", [{"prompt": "a", "completion": "b"}])
    run = read_log(tmp_path / "out")
    settings = {"total_steps": (300, "logged"), "logging_window": 5}
    assert_read(run, step=[1, 5, 10, 15, 20, 25, 30], signals={"entropy": 0.6}, settings=settings)
    assert "ms-swift" in run.settings.group_size.note


def slime_rows(updates: int, rollouts: int = 6) -> list[dict]:
    """Rows of slime as Weights & Biases keeps them: rollouts and updates on axes of their own."""
    rows: list[dict] = []
    for r in range(rollouts):
        rows.append({"rollout/step": r, "rollout/raw_reward": 0.1 * r, "rollout/response_len/mean": 100.0})
        rows += [
            {"train/step": r * updates + u, "train/pg_loss": 0.3 + u, "train/kl_loss": 0.2} for u in range(updates)
        ]
    return rows


EVAL = {"eval/step": 3, "eval/aime": 0.5, "eval/aime-pass@1": 0.4, "eval/aime-pass@16": 0.9}
"""An evaluation of slime, whose pass rates are no mean rewards."""


def rewarded(run) -> list:
    return run.step[np.isfinite(run.reward)].tolist()


def test_slime_rows_of_updates_join_those_of_rollouts(write):
    run = read_log(write("log.jsonl", [*slime_rows(1), EVAL]))
    reward = 0.1 * np.arange(6)
    assert_read(run, step=range(6), reward=reward, evals={3: 0.5}, signals={"loss": 0.3}, without=("entropy", "left"))
    assert run.keys["eval_reward"] == "eval/aime"
    run = read_log(write("log.jsonl", [*slime_rows(4), EVAL]))
    assert rewarded(run) == list(range(0, 24, 4))
    loss = 0.3 + np.tile(range(4), 6)
    settings = {"refresh_interval": (4, "logged")}
    assert_read(run, "4 updates a rollout", step=range(24), evals={12: 0.5}, signals={"loss": loss}, settings=settings)
    parts = [[r for r in slime_rows(4) if ("train/step" in r) == of_training] for of_training in (False, True)]
    assert rewarded(read_log([write("a.jsonl", parts[0]), write("b.jsonl", parts[1])])) == list(range(0, 24, 4))
    last_is_not_used = read_log(write("log.jsonl", slime_rows(4, 3)[:-4]))
    assert rewarded(last_is_not_used) == [0, 4, 8]


def test_a_group_that_is_not_stated_is_not_known(write):
    """verl's default of 1 is for other algorithms: as an assumed group it made every number that follows nonsense."""
    rows = [{"step": s, "data": {"critic/score/mean": 0.1 * s, "actor/entropy": 0.4}} for s in range(1, 6)]
    run = read_log(write("run.jsonl", rows))
    assert run.settings.group_size.value is None
    assert "--set group_size=…" in run.settings.group_size.note
    assert run.to_dict()["settings"]["group_size"]["provenance"] == "none"
    write("bayes_grpo.toml", "[settings]\ngroup_size = 8\n")
    assert_read(read_log(write("run.jsonl", rows)), settings={"group_size": (8, "config")})


def test_verl_behind_a_long_configuration(write):
    config = [f"'reward_model{i}': {{'reward_kwargs': {{'steps': None, 'n': 1}}}}," for i in range(3000)]
    lines = [f"(TaskRunner pid=1) step:{i} - critic/score/mean:{0.01 * i} - actor/lr:1e-06" for i in range(1, 21)]
    run = read_log(write("run.log", "\n".join([*config, *lines])))
    assert_read(run, reward=0.01 * np.arange(1, 21), format="verl_console")


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
    assert run.settings.total_steps.explicit == 5.0
    assert run.until(5).settings.total_steps == run.settings.total_steps
    assert run.until(4).settings.total_steps.value is None
    assert read_log(rows).settings.total_steps.value is None
    assert read_log([*rows, closing], settings={"total_steps": 9}).until(4).settings.total_steps.explicit == 9.0
