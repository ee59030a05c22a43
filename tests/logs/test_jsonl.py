import json

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log


def test_prime_rl_several_lines_a_step(write):
    rows = []
    for s in range(5):
        rows += [
            {"step": s, "time/step": 9.0},
            {"step": s, "optim/lr": 1e-6, "optim/grad_norm": 0.1},
            {"step": s, "entropy/all/mean": 0.3, "mismatch_kl/all/mean": 0.01},
            {
                "step": s,
                "train/agg/all/main/reward/mean": 0.1 * s,
                "train/agg/effective/main/reward/mean": 9.0,
            },
        ]
    rows.append({"step": 2, "eval/math/all/main/avg@4": 0.55, "eval/math/all/main/pass@4": 0.9})
    run = read_log(write("metrics.jsonl", rows))
    np.testing.assert_allclose(run.reward, 0.1 * np.arange(5))
    assert set(run.signals) == {"learning_rate", "grad_norm", "entropy", "engine_mismatch", "step_time"}
    assert all(np.isfinite(v).all() for v in run.signals.values())
    np.testing.assert_array_equal((run.eval_step, run.eval_reward), ([2], [0.55]))


def test_files_of_one_run_are_joined_on_the_step(write):
    orchestrator = write("a/metrics.jsonl", [{"step": s, "train/agg/all/m/reward/mean": 0.1 * s} for s in range(5)])
    trainer = write("b/metrics.jsonl", [{"step": s, "optim/grad_norm": 1.0 + s} for s in range(5)])
    run = read_log([orchestrator, trainer])
    np.testing.assert_allclose(run.reward, 0.1 * np.arange(5))
    np.testing.assert_allclose(run.signals["grad_norm"], 1.0 + np.arange(5))
    assert str(trainer) in run.source


@pytest.mark.parametrize(
    ("keys", "reward"),
    [
        ({"scores": 0.5, "val/sequence_lengths": 100.0, "episode": 512, "training_step": None}, "scores"),
        ({"objective/scores": 0.5, "objective/rlhf_reward": 0.4, "step": None}, "objective/scores"),
        ({"mean_reward": 0.5, "approx_kl": 0.1, "avg_gen_tokens": 99.0, "step": None}, "mean_reward"),
        ({"My Reward": 0.5, "Iteration": None}, "My Reward"),
    ],
)
def test_keys_without_a_sample_of_their_own(write, keys, reward):
    rows = [{k: s if v is None else v for k, v in keys.items()} for s in range(1, 6)]
    run = read_log(write("log.jsonl", rows))
    assert run.keys["reward"] == reward
    np.testing.assert_array_equal(run.step, range(1, 6))
    np.testing.assert_array_equal(run.reward, [0.5] * 5)


def test_openrlhf_evaluations_have_their_own_step_key(write):
    rows = [{"train/global_step": s, "train/reward": 0.1, "train/actor_lr": 1e-6} for s in range(1, 6)]
    rows.append({"eval/global_step": 3, "eval/eval_math_pass1": 0.4})
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_array_equal((run.eval_step, run.eval_reward), ([3], [0.4]))


def test_a_cut_off_last_line_is_left_out_with_a_note(write):
    text = "".join(json.dumps({"step": s, "reward": 0.1 * s}) + "\n" for s in range(1, 6)) + '{"step": 6, "rew'
    run = read_log(write("log.jsonl", text))
    assert run.step[-1] == 5
    assert any("1 line " in n and "line 6" in n for n in run.notes)


def test_mostly_broken_lines_are_an_error(write):
    text = '{"step": 1, "reward": 0.1}\n{"step": 2, "reward": 0.1}\n' + "{broken\n" * 5
    with pytest.raises(LogReadError, match="5 lines of 7"):
        read_log(write("log.jsonl", text))


def test_two_objects_on_a_line_are_not_silently_split(write):
    text = '{"step": 1, "reward": 0.1}\n{"step": 2, "reward": 0.2},{"step": 9, "reward": 0.9}\n'
    text += '{"step": 3, "reward": 0.3}\n'
    run = read_log(write("log.jsonl", text))
    np.testing.assert_array_equal(run.step, [1, 3])


def test_steps_without_a_step_column_are_counted(write):
    path = write("log.jsonl", [{"reward": 0.1}, {"eval_reward": 0.9}, {"reward": 0.2}, {"reward": 0.3}])
    run = read_log(path)
    np.testing.assert_array_equal(run.step, [1, 2, 3])
    np.testing.assert_array_equal(run.eval_step, [1])
    assert any("counted from 1" in n for n in run.notes)
    run = read_log(path, settings={"logging_window": 10})
    np.testing.assert_array_equal(run.step, [10, 20, 30])
    np.testing.assert_array_equal(run.window, [10, 10, 10])


def test_numbers_as_text(write):
    rows = [{"step": f"{s}", "reward": f"0.{s}", "accuracy": "62.5%", "kl": "n/a"} for s in range(1, 6)]
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_allclose(run.reward, 0.1 * run.step)
    np.testing.assert_allclose(run.signals["accuracy"], 0.625)
    assert "kl" not in run.signals


def test_metrics_inside_a_wrapper(write):
    rows = [{"step": s, "metrics": {"train/reward": 0.1 * s, "train/kl": 0.2}} for s in range(1, 6)]
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_allclose(run.reward, 0.1 * run.step)
    assert run.keys["kl"] == "metrics/train/kl"


def test_evaluations_of_several_data_sets(write):
    rows = [{"step": s, "reward": 0.1 * s} for s in range(1, 6)]
    rows.append({"step": 5, "eval/math/accuracy": 0.2, "eval/code/accuracy": 0.4, "eval/math/time": 99})
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_allclose(run.eval_reward, [0.3])


def typed_rows(updates: int, rollouts: int = 8) -> list[dict]:
    """A script's own log: a rollout, the updates made with it, and an evaluation, each a line of its own."""
    rows: list[dict] = [{"type": "eval", "grpo_step": 0, "optimizer_step": 0, "reward": 0.05, "eval_seconds": 9.0}]
    for r in range(1, rollouts + 1):
        rows.append({"type": "rollout", "grpo_step": r, "reward": 0.1 * r, "mean_reward": 0.1 * r, "std_reward": 0.4})
        for u in range(1, updates + 1):
            off = 0.02 * (u - (updates + 1) / 2)  # parts of the rollout, whose mean is its reward
            step = updates * (r - 1) + u
            rows.append(
                {
                    "type": "train",
                    "grpo_step": r,
                    "optimizer_step": step,
                    "train_reward": 0.1 * r + off,
                    "grad_norm": 0.5,
                }
            )
        if r % 4 == 0:
            rows.append({"type": "eval", "grpo_step": r, "optimizer_step": updates * r, "reward": 0.01 * r})
    return rows


@pytest.mark.parametrize("updates", [1, 4])
def test_lines_of_several_kinds(write, updates):
    run = read_log(write("metrics.jsonl", typed_rows(updates)))
    there = np.isfinite(run.reward)
    np.testing.assert_array_equal(run.step[there], 1 + updates * np.arange(8))
    np.testing.assert_allclose(run.reward[there], 0.1 * np.arange(1, 9))
    np.testing.assert_array_equal(run.eval_step, [0, 4 * updates, 8 * updates])
    np.testing.assert_allclose(run.eval_reward, [0.05, 0.04, 0.08])
    np.testing.assert_allclose(run.signals["grad_norm"], 0.5)
    assert run.settings.refresh_interval.value == updates


def test_settings_that_every_record_repeats(write):
    rows = typed_rows(4)
    for row in rows:
        row |= {"group_size": 8.0} if row["type"] == "rollout" else {}
        row |= {"epochs_per_rollout_batch": 2, "rollout_batch_size": 64, "train_batch_size": 32}
    settings = read_log(write("metrics.jsonl", rows)).settings
    found = (settings.group_size.value, settings.prompts_per_step.value, settings.refresh_interval.value)
    assert found == (8, 4, 4)
    assert settings.group_size.note == "'group_size' in every record"
    rows[-2]["group_size"] = 16  # it changes: no setting of the run
    assert read_log(write("other.jsonl", rows)).settings.group_size.value is None


def test_rewards_of_several_kinds_that_differ_are_an_error(write):
    rows = typed_rows(2)
    for row in rows:
        if "train_reward" in row:
            row["train_reward"] *= 0.5
    with pytest.raises(LogReadError, match="several that differ: reward, train_reward"):
        read_log(write("metrics.jsonl", rows))


def test_a_reward_named_after_the_rollout_is_told_apart_too(write):
    rows = [
        {"split": x, "step": s, "rollout_reward": 0.1 * s + (x != "train")} for s in range(5) for x in ("train", "val")
    ]
    run = read_log(write("metrics.jsonl", rows), columns={"heldout": "eval/rollout_reward"})
    np.testing.assert_allclose(run.reward, 0.1 * np.arange(5))
    np.testing.assert_allclose(run.eval_reward, 1.0 + 0.1 * np.arange(5))


def test_a_word_that_says_no_kind_changes_nothing(write):
    rows = [{"type": "grpo", "mode": "training", "step": s, "reward": 0.1 * s} for s in range(5)]
    run = read_log(write("metrics.jsonl", rows))
    np.testing.assert_allclose(run.reward, 0.1 * np.arange(5))
    assert not run.has_eval


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("cut", [0, 1, 7])
def test_utf_16_as_powershell_writes_it(write, encoding, cut):
    text = "".join(json.dumps({"step": s, "reward": 0.1 * s, "note": "grün €"}) + "\r\n" for s in range(1, 6))
    mark = "\ufeff".encode(encoding) if encoding == "utf-16-be" else b""
    data = mark + text.encode(encoding)
    run = read_log(write("log.jsonl", data[: len(data) - cut]), whole_lines=True)
    np.testing.assert_array_equal(run.step, range(1, 6) if cut < 7 else range(1, 5))
    assert not any("NUL" in note for note in run.notes)


def test_a_table_in_utf_16(write):
    text = "step;reward\n" + "".join(f"{s};0,{s}\n" for s in range(1, 6))
    np.testing.assert_allclose(read_log(write("a.csv", text.encode("utf-16"))).reward, np.arange(1, 6) / 10)
