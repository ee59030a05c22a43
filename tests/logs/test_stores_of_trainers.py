"""Logs of trainers as their own code writes them: rows of several kinds, steps as text, settings as a line."""

import json

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read, trl_row

ROWS = range(1, 7)


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


def test_updates_that_fit_no_rollout_are_refused(write):
    rows = [r for r in slime_rows(1) if "rollout/step" in r]
    rows += [{"train/step": s, "train/pg_loss": 0.3} for s in range(9)]
    with pytest.raises(LogReadError, match=r"same number of updates with each rollout, found 9 with 6.*columns={.step"):
        read_log(write("log.jsonl", rows))


def test_slime_console_has_two_lines_a_step(write):
    lines = []
    for row in slime_rows(2):
        count, word = ("rollout/step", "rollout") if "rollout/step" in row else ("train/step", "step")
        shown = {k: v for k, v in row.items() if k != "rollout/step"}
        lines.append(f"[2026-11-22 10:00:00] utils.py:9 - {word} {row[count]}: {shown}")
    lines.append("[2026-11-22 10:00:00] utils.py:9 - eval 5: {'eval/aime': 0.25}")
    run = read_log(write("out.log", "\n".join(lines)))
    assert_read(run, step=range(12), evals={10: 0.25})
    assert rewarded(run) == list(range(0, 12, 2))
    text = "\n".join(f"step {5 * s}: {{'reward': 0.{s}}}" for s in ROWS)
    assert_read(read_log(write("out.log", text)), step=5 * np.array(ROWS))


@pytest.mark.parametrize("tag", ["", "@sum"])
def test_roll(write, tag):
    metrics = {"critic/rewards/mean": 0.0, "critic/entropy/mean": 0.6, f"actor/ppo_ratio_clipfrac{tag}": 0.01}
    metrics |= {"actor/lr": 1e-6, "tokens/response_length/mean": 300.0}
    rows = [{"step": s, "metrics": {"critic/score/mean": 0.1 * s, **metrics}} for s in ROWS]
    rows[2]["metrics"] |= {"val_correct/all/mean": 0.4, "val_correct/math/mean": 0.2}
    text = "\n".join(f"[2026-11-22 10:00:00] [tracking.py (9)] [INFO] metrics_tag: {json.dumps(r)}" for r in rows)
    for run in (read_log(write("out.log", text)), read_log(write("log.jsonl", rows))):
        assert_read(run, step=ROWS, reward=0.1 * run.step, evals={3: 0.4}, signals={"clip_ratio": 0.01})
        assert set(run.signals) == {"entropy", "clip_ratio", "completion_length", "learning_rate"}


CONFIG = {"group_size": 8, "learning_rate": 1e-5, "epochs_per_rollout_batch": 2, "rollout_batch_size": 256}
CONFIG |= {"train_batch_size": 128, "model": {"name": "m"}}


@pytest.mark.parametrize(("key", "prompts", "refresh"), [("step", 32, 1), ("optimizer_step", 16, 4)])
def test_settings_next_to_the_records(write, key, prompts, refresh):
    run = read_log(write("log.json", {"config": CONFIG, "history": [{key: s, "reward": 0.1 * s} for s in ROWS]}))
    values = {"group_size": 8, "prompts_per_step": prompts, "refresh_interval": refresh}
    assert_read(run, step=ROWS, settings={name: (value, "config") for name, value in values.items()})


def update_rows(each: int) -> list[dict]:
    """A row for every update, each of which repeats what its rollout said."""
    return [
        {"step": (r - 1) * each + u + 1, "grpo_step": r, "reward": 0.1 * r, "reward_std": 0.2 + 0.01 * r, "kl": 0.1 * u}
        for r in range(1, 9)
        for u in range(each)
    ]


@pytest.mark.parametrize("each", [2, 4])
def test_a_rollout_is_counted_once_whatever_the_updates_made_with_it(write, each):
    run = read_log(write("log.jsonl", update_rows(each)))
    note = f"{8 * (each - 1)} rows that repeat a rollout's reward"
    assert_read(run, note, step=range(1, 8 * each + 1), settings={"refresh_interval": (each, "logged")})
    assert rewarded(run) == list(range(1, 8 * each, each))
    np.testing.assert_allclose(run.reward[::each], 0.1 * np.arange(1, 9))
    np.testing.assert_array_equal(np.isfinite(run.signals["reward_std"]), np.isfinite(run.reward))
    assert np.isfinite(run.signals["kl"]).all()


def test_rollouts_of_one_update_are_left_alone_and_may_be_the_only_step(write):
    run = read_log(write("log.jsonl", update_rows(1)))
    assert np.isfinite(run.reward).all()
    assert run.settings.refresh_interval.provenance == "assumed"
    run = read_log(write("log.jsonl", [{k: v for k, v in row.items() if k != "step"} for row in update_rows(4)]))
    assert_read(run, step=range(1, 9), reward=0.1 * run.step)


@pytest.mark.parametrize("value", ["five", "3 of 9", None, "1/2/3"])
def test_a_step_that_cannot_be_read_is_refused(write, value):
    rows = [{"step": value, "reward": 0.1 * s} for s in ROWS]
    with pytest.raises(LogReadError, match=r"step as a number, found step without one in 6 rows.*columns={.step"):
        read_log(write("log.jsonl", rows))


def test_an_entropy_without_numbers_is_not_called_zero(write):
    rows = [{"step": s, "reward": 0.1 * s} for s in ROWS] + [{"entropy": 0.5}]
    assert_read(read_log(write("log.jsonl", rows)), without=("entropy",))
