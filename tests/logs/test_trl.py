"""TRL: trainer_state.json, output directories and checkpoints, closing lines."""

import json

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read, trl_row, trl_state

TENS = [10, 20, 30, 40, 50]
ROWS = [trl_row(s, 0.1 + 0.005 * s) for s in TENS]
EVAL = {"eval_loss": 0.1, "eval_runtime": 3.0, "eval_reward": 0.33, "eval_reward_std": 0.1, "epoch": 0.1}
SUMMARY = {"train_runtime": 99.0, "train_loss": 0.5, "total_flos": 0.0, "epoch": 0.1}
STATE = "trainer_state.json"


def test_trainer_state_file_and_its_settings(write):
    rows = [*ROWS[:2], EVAL | {"step": 20}, *ROWS[2:], SUMMARY | {"step": 50}]
    run = read_log(write(STATE, trl_state(rows)))
    keys = {"completion_length": "completions/mean_length", "clip_ratio": "clip_ratio/region_mean"}
    settings = {
        "total_steps": (100, "logged"),
        "logging_window": (10, "logged"),
        "schedule": ("logged", "logged"),
        "group_size": (8, "assumed"),
        "momentum": 0.9,
        "momentum_convention": "ema",
        "prompts_per_step": None,
        "reward_low": None,
    }
    assert_read(run, step=TENS, reward=0.1 + 0.005 * run.step, evals={20: 0.33}, keys=keys, settings=settings)
    assert_read(run, signals={"loss": 0.01 * run.step}, format="trl_trainer_state")
    assert run.window.tolist() == [10] * 5
    assert "TRL" in run.settings.group_size.note
    first = read_log(write(STATE, trl_state([trl_row(1, 0.1), *ROWS])))
    assert first.window.tolist() == [1, 9, 10, 10, 10, 10]  # a first row averages no more than its step
    bare = read_log(write("history.json", [*ROWS, SUMMARY]))
    settings = {"group_size": 8, "logging_window": (10, "assumed")}
    assert_read(bare, step=TENS, settings=settings, format="json")


@pytest.mark.parametrize(("step", "last", "window"), [(54, 0.9, 4), (50, 0.35, 10)])
def test_a_closing_line_is_a_row_where_it_has_a_step_of_its_own(write, step, last, window):
    run = read_log(write(STATE, trl_state([*ROWS, {"reward": 0.9, **SUMMARY, "step": step}])))
    assert (run.step[-1], run.window[-1]) == (step, window)
    assert run.reward[-1] == pytest.approx(last)
    assert "train_loss" not in run.keys.values()


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


def test_old_keys(write):
    old = {"completion_length": 100.0, "kl": 0.01, "loss": 0.0, "reward_std": 0.2, "learning_rate": 1e-6}
    rows = [old | {"reward": 0.1 * s, "rewards/f": 0.1 * s, "step": s, "clip_ratio": 0.0} for s in range(1, 6)]
    run = read_log(write(STATE, trl_state(rows, logging_steps=1)))
    assert run.keys["completion_length"] == "completion_length"
    assert set(run.signals) >= {"completion_length", "kl", "clip_ratio", "reward_std"}


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_only_reward_functions_are_summed_with_a_note(write, prefix):
    rows = [
        {f"{prefix}rewards/a/mean": 0.1 * s, f"{prefix}rewards/a/std": 9.0, f"{prefix}rewards/b/mean": 1.0, "step": s}
        for s in range(1, 6)
    ]
    run = read_log(write("h.json", rows))
    assert_read(run, "weight 1", reward=0.1 * run.step + 1.0)


def test_rows_without_a_rollout_tell_the_refresh_interval(write):
    rows = [trl_row(s, 0.3 + 0.01 * s) for s in range(1, 25)]
    of_rollouts = ("reward", "reward_std", "frac_reward_zero_std", "rewards/accuracy/mean")
    rows = [{k: v for k, v in r.items() if r["step"] % 4 == 1 or k not in of_rollouts} for r in rows]
    run = read_log(write(STATE, trl_state(rows, logging_steps=1)))
    assert_read(run, step=range(1, 25), settings={"refresh_interval": (4, "logged")})
    assert np.isfinite(run.reward).sum() == 6


def test_none_and_not_finite_values_are_nan(write):
    text = json.dumps(trl_state([*ROWS, trl_row(60, None), trl_row(70, float("nan"), kl=float("inf"))]))
    assert "NaN" in text
    run = read_log(write(STATE, text))
    np.testing.assert_array_equal(np.isnan(run.reward), [False] * 5 + [True] * 2)
    assert "kl" not in run.signals


def test_a_state_that_is_cut_off_is_read_as_far_as_it_goes(write):
    whole = json.dumps(trl_state(ROWS), indent=2)
    third, behind = whole.index('"step": 30'), whole.index('"logging_steps"')
    for end, n in ((third, 2), (third + len('"step": 3'), 2), (behind, len(ROWS))):
        run = read_log(write(STATE, whole[:end]))
        assert_read(run, "the file is cut off in line", step=[x["step"] for x in ROWS[:n]])
    assert_read(read_log(write(STATE, whole)), without=["cut off"])


def test_a_state_without_a_whole_value_or_none_says_what_to_do_in_one_line(write):
    path = write(STATE, json.dumps(trl_state(ROWS), indent=2)[:40])
    with pytest.raises(LogReadError, match=r"trainer_state\.json: expected JSON.*line \d+ column \d+.*checkpoint"):
        read_log(path)
    with pytest.raises(LogReadError, match=r"trainer_state\.json: expected JSON.*checkpoint"):
        read_log(write(STATE, json.dumps(trl_state(ROWS))[:900]), whole_lines=True)  # it is being written
    with pytest.raises(LogReadError, match=r"found dict with step, a b; pass") as refused:
        read_log(write(STATE, {"step": [], "a\nb": []}), format="trl_trainer_state")
    assert "\n" not in str(refused.value)
