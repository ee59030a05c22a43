"""Logs of trainers as their own code writes them: rows of several kinds, steps as text, settings as a line."""

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read, trl_row


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


CONFIG = {"group_size": 8, "learning_rate": 1e-5, "epochs_per_rollout_batch": 2, "rollout_batch_size": 256}
CONFIG |= {"train_batch_size": 128, "model": {"name": "m"}}
