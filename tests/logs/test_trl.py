import json

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import Provenance, read_log
from tests.logs.log_samples import trl_row, trl_state

ROWS = [trl_row(s, 0.1 + 0.005 * s) for s in range(10, 60, 10)]
EVAL = {"eval_loss": 0.1, "eval_runtime": 3.0, "eval_reward": 0.33, "eval_reward_std": 0.1, "epoch": 0.1}
SUMMARY = {"train_runtime": 99.0, "train_loss": 0.5, "total_flos": 0.0, "epoch": 0.1}


def test_trainer_state_file(write):
    rows = [*ROWS[:2], EVAL | {"step": 20}, *ROWS[2:], SUMMARY | {"step": 50}]
    run = read_log(write("trainer_state.json", trl_state(rows)))
    assert run.format == "trl_trainer_state"
    np.testing.assert_array_equal(run.step, [10, 20, 30, 40, 50])
    np.testing.assert_allclose(run.reward, 0.1 + 0.005 * run.step)
    np.testing.assert_array_equal(run.window, [10, 10, 10, 10, 10])
    np.testing.assert_array_equal(run.eval_step, [20])
    np.testing.assert_array_equal(run.eval_reward, [0.33])
    np.testing.assert_allclose(run.signals["loss"], 0.01 * run.step)
    assert run.keys["completion_length"] == "completions/mean_length"
    assert run.keys["clip_ratio"] == "clip_ratio/region_mean"


def test_settings_of_trainer_state_have_their_origin(write):
    s = read_log(write("trainer_state.json", trl_state(ROWS))).settings
    assert (s.total_steps.value, s.total_steps.provenance) == (100, Provenance.LOGGED)
    assert (s.logging_window.value, s.logging_window.provenance) == (10, Provenance.LOGGED)
    assert (s.schedule.value, s.schedule.provenance) == ("logged", Provenance.LOGGED)
    assert (s.group_size.value, s.group_size.provenance) == (8, Provenance.ASSUMED)
    assert (s.momentum.value, s.momentum_convention.value) == (0.9, "ema")
    assert "TRL" in s.group_size.note
    assert s.prompts_per_step.value is None
    assert s.reward_low.value is None


@pytest.mark.parametrize(("step", "last", "window"), [(54, 0.9, 4), (50, 0.35, 10)])
def test_a_closing_line_is_a_row_where_it_has_a_step_of_its_own(write, step, last, window):
    rows = [*ROWS, {"reward": 0.9, **SUMMARY, "step": step}]
    run = read_log(write("trainer_state.json", trl_state(rows)))
    assert (run.step[-1], run.window[-1]) == (step, window)
    assert run.reward[-1] == pytest.approx(last)
    assert "train_loss" not in run.keys.values()


def test_a_first_row_averages_no_more_than_its_step(write):
    run = read_log(write("trainer_state.json", trl_state([trl_row(1, 0.1), *ROWS])))
    np.testing.assert_array_equal(run.window, [1, 9, 10, 10, 10, 10])


def test_output_directory_takes_the_highest_checkpoint(write, tmp_path):
    for last in (10, 20, 100):
        write(
            f"out/checkpoint-{last}/trainer_state.json",
            trl_state([trl_row(s, 0.5) for s in range(5, last + 1, 5)]),
        )
    run = read_log(tmp_path / "out")
    assert run.step[-1] == 100
    assert run.name == "out"
    assert any("checkpoint-100" in n for n in run.notes)


@pytest.mark.parametrize(("top", "expected"), [(50, 50), (20, 30)])
def test_the_state_of_the_directory_itself_competes(write, tmp_path, top, expected):
    write("out/checkpoint-30/trainer_state.json", trl_state([trl_row(s, 0.5) for s in range(5, 31, 5)]))
    write("out/trainer_state.json", trl_state([trl_row(s, 0.5) for s in range(5, top + 1, 5)]))
    assert read_log(tmp_path / "out").step[-1] == expected


def test_a_cut_off_newest_checkpoint_gives_way_to_the_one_before(write, tmp_path):
    write("out/checkpoint-50/trainer_state.json", trl_state(ROWS))
    write("out/checkpoint-60/trainer_state.json", json.dumps(trl_state(ROWS))[:300])
    run = read_log(tmp_path / "out")
    assert run.step[-1] == 50
    assert any("checkpoint-60" in n for n in run.notes)


def test_checkpoint_directory_is_named_after_its_run(write, tmp_path):
    write("my-run/checkpoint-50/trainer_state.json", trl_state(ROWS))
    assert read_log(tmp_path / "my-run" / "checkpoint-50").name == "my-run"


def test_bare_log_history(write):
    run = read_log(write("history.json", [*ROWS, SUMMARY]))
    assert run.format == "json"
    np.testing.assert_array_equal(run.step, [10, 20, 30, 40, 50])
    assert run.settings.group_size.value == 8
    assert (run.settings.logging_window.value, run.settings.logging_window.provenance) == (10, Provenance.ASSUMED)


def test_old_keys(write):
    rows = [
        {"completion_length": 100.0, "kl": 0.01, "loss": 0.0, "reward": 0.1 * s, "reward_std": 0.2}
        | {"rewards/f": 0.1 * s, "learning_rate": 1e-6, "step": s, "clip_ratio": 0.0}
        for s in range(1, 6)
    ]
    run = read_log(write("trainer_state.json", trl_state(rows, logging_steps=1)))
    assert run.keys["completion_length"] == "completion_length"
    assert set(run.signals) >= {"completion_length", "kl", "clip_ratio", "reward_std"}


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_only_reward_functions_are_summed_with_a_note(write, prefix):
    rows = [
        {f"{prefix}rewards/a/mean": 0.1 * s, f"{prefix}rewards/a/std": 9.0, f"{prefix}rewards/b/mean": 1.0, "step": s}
        for s in range(1, 6)
    ]
    run = read_log(write("h.json", rows))
    np.testing.assert_allclose(run.reward, 0.1 * run.step + 1.0)
    assert any("weight 1" in n for n in run.notes)


def test_rows_without_a_rollout_tell_the_refresh_interval(write):
    rows = [trl_row(s, 0.3 + 0.01 * s) for s in range(1, 25)]
    for r in rows:
        if r["step"] % 4 != 1:
            for key in ("reward", "reward_std", "frac_reward_zero_std", "rewards/accuracy/mean"):
                del r[key]
    run = read_log(write("trainer_state.json", trl_state(rows, logging_steps=1)))
    assert len(run.step) == 24
    assert np.isfinite(run.reward).sum() == 6
    assert (run.settings.refresh_interval.value, run.settings.refresh_interval.provenance) == (4, Provenance.LOGGED)


def test_none_and_not_finite_values_are_nan(write):
    text = json.dumps(trl_state([*ROWS, trl_row(60, None), trl_row(70, float("nan"), kl=float("inf"))]))
    assert "NaN" in text
    run = read_log(write("trainer_state.json", text))
    np.testing.assert_array_equal(np.isnan(run.reward), [False] * 5 + [True] * 2)
    assert "kl" not in run.signals


def test_truncated_state_says_where_and_what_to_do(write):
    path = write("trainer_state.json", json.dumps(trl_state(ROWS), indent=2)[:700])
    with pytest.raises(LogReadError, match=r"trainer_state\.json: expected JSON.*line \d+ column \d+.*checkpoint"):
        read_log(path)


def test_an_object_without_history_is_refused_in_one_line(tmp_path):
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"step": [], "a\nb": []}), encoding="utf-8")
    with pytest.raises(LogReadError, match=r"found dict with step, a b; pass") as refused:
        read_log(path, format="trl_trainer_state")
    assert "\n" not in str(refused.value)
