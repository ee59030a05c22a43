"""What is read as the reward where no key has that name, which training is meant, and what a refusal describes."""

import json

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

VALUES = (0.25, 0.5, 0.75)


def csv(*names: str) -> str:
    rows = (",".join([str(i), *[str(x)] * (len(names) - 1)]) for i, x in enumerate(VALUES))
    return "\n".join([",".join(names), *rows, ""])


@pytest.mark.parametrize(
    ("names", "reward"),
    [
        (("rollout", "accuracy"), "accuracy"),
        (("step", "success rate"), "success rate"),
        (("step", "Win Rate", "loss"), "Win Rate"),
        (("step", "solved", "kl"), "solved"),
        (("Step", "8b"), "8b"),
        (("step", "mean"), "mean"),
    ],
)
def test_a_rate_or_the_only_column_is_the_reward(write, names, reward):
    run = read_log(write("log.csv", csv(*names)))
    assert_read(run, f"took {reward!r} for the train reward", step=range(3), reward=VALUES, keys={"reward": reward})
    assert "accuracy" not in run.signals


@pytest.mark.parametrize("name", ["loss", "Training Loss", "time", "step_time", "lr", "entropy", "tokens", "kl", "std"])
def test_what_is_named_otherwise_is_no_reward(write, name):
    with pytest.raises(LogReadError, match=f"expected a train reward, found step, {name}"):
        read_log(write("log.csv", csv("step", name)))


def test_parts_of_a_reward_come_before_an_accuracy():
    rows = [{"step": i, "accuracy": 0.5, "rewards/a/mean": x, "rewards/b/mean": x} for i, x in enumerate(VALUES)]
    run = read_log(rows)
    assert_read(run, "it is the sum of", reward=[0.5, 1.0, 1.5], signals={"accuracy": 0.5})


def test_the_score_is_the_reward_and_not_the_score_less_its_penalty(write):
    rows = [{"step": i, "critic/score/mean": x, "critic/rewards/mean": x - 9.0} for i, x in enumerate(VALUES)]
    assert_read(read_log(rows), reward=VALUES, keys={"reward": "critic/score/mean"})


def test_a_line_that_lost_its_reward_keeps_its_step(write):
    lines = [f"step:{i} - critic/score/mean:0.5 - actor/entropy:0.4" for i in range(1, 21)]
    lines[9] = "step:10 - val-core/aime/acc/mean@8:0.127 - val-aux/" + "x" * 300
    run = read_log(write("run.log", "\n".join(lines)))
    rewarded = [s for s, r in zip(run.step, run.reward, strict=True) if r == r]
    assert rewarded == [s for s in range(1, 21) if s != 10]
    assert_read(run, evals={10: 0.127})


def markdown(title: str, rewards, name: str = "reward") -> str:
    rows = "".join(f"| {i} | 0.1 | {x} |\n" for i, x in enumerate(rewards, 1))
    return f"# {title}\n\n| Step | Training Loss | {name} |\n|---|---|---|\n{rows}\n"


def test_the_training_with_ten_times_the_rows_is_meant(write):
    trial, main = markdown("Trial", [0.1, 0.2, 0.3]), markdown("Training", [0.01 * i for i in range(30)])
    run = read_log(write("notes.md", trial + main))
    assert len(run.step) == 30
    assert_read(run, "ten times the rows of any other; left out: table 1 (steps 1 to 3, reward 0.1 to 0.3)")
    assert len(read_log(write("notes.md", trial + main), run="table 1").step) == 3
    with pytest.raises(LogReadError, match="expected one run, found 2"):
        read_log(write("two.md", trial + markdown("Other", [0.1] * 20)))
    rows = [{"step": i, "reward": 0.01 * k} for k, i in enumerate([*range(1, 61), *range(1, 6)])]
    run = read_log(write("log.jsonl", rows))
    assert_read(run, "training 1 of 2 in the log is read, with ten times the rewards of any other")
    assert len(run.step) == 60


def test_a_refusal_describes_the_tables_that_it_saw(write):
    table = markdown("Run", [0.5, 0.4], "Validation Loss")
    with pytest.raises(
        LogReadError, match=r"a table without rewards of 2 rows \(Step, Training Loss, Validation Loss\)"
    ):
        read_log(write("notes.md", table))
    cell = "<table><tr><th>Step</th><th>Training Loss</th></tr><tr><td>1</td><td>0.5</td></tr></table>"
    outputs = [{"output_type": "display_data", "data": {"text/html": cell}}]
    cells = [{"cell_type": "code", "source": "", "outputs": outputs}]
    notebook = json.dumps({"nbformat": 4, "metadata": {}, "cells": cells})
    with pytest.raises(LogReadError, match=r"but a table without rewards of 1 row \(Step, Training Loss\)"):
        read_log(write("run.ipynb", notebook))


SLIME = {"rollout/response_len/mean": 2773.7, "rollout/zero_std/count_0": 12, "rollout/truncated_ratio": 0.465}


def test_rows_of_a_trainer_without_a_reward_say_what_they_show_and_where_it_is(write):
    holds = r"1 row of slime .*completion length 2774, completions clipped ratio 0.465, filtered groups 12; slime"
    where = "logs its reward as rollout/raw_reward on the rows of its rollouts: pass that part of the log too"
    with pytest.raises(LogReadError, match=f"{holds} {where}"):
        read_log(write("run.log", f"(RolloutManager pid=1) rollout.py:1193 - perf 0: {SLIME}\n"))
    late = "\n".join([*[f"perf {i}: {SLIME}" for i in range(400)], *[f"{{'reward': 0.{i}}}" for i in range(1, 9)]])
    assert len(read_log(write("late.log", late)).reward) >= 8
    with pytest.raises(LogReadError, match="no reader knows"):
        read_log(write("other.log", "the config {'epoch': 3, 'lr': 0.1} was fine\n"))


def test_a_summary_over_a_training_is_refused_as_one(write):
    summary = "- critic/score/mean: mean=0.5 min=0.1 max=0.8\n- response_length/mean: mean=238.3 min=196 max=288\n"
    with pytest.raises(
        LogReadError, match=r"a summary of 2 metrics over a training \(critic/score/mean\), not its rows"
    ):
        read_log(write("notes.md", summary))


def test_keys_of_a_trainer_one_a_line_are_a_row(write):
    lines = (
        "Nothing is learned:\n\n```text\ncritic/score/mean: 0.0\ncritic/rewards/mean: 0.0\nactor/grad_norm: 0.5\n```\n"
    )
    assert_read(read_log(write("notes.md", lines)), reward=[0.0], signals={"grad_norm": 0.5})
    with pytest.raises(LogReadError, match="no reader knows"):
        read_log(write("config.yaml", "reward: 1.0\nscore: 0.5\nlr: 1e-6\n"))


def test_an_evaluation_alone_is_read(write):
    line = "Iter 1: Val loss -0.001, Val total_rewards_mean 0.25, Val total_rewards_std 0.007, Val kl 0.0, Val took"
    assert_read(read_log(write("run.log", f"Output\n{line}\n")), evals={1: 0.25})


def test_percentages_where_no_reward_is_are_evaluations(write):
    head = "| Step | Reward | KL | tomi | hi_tom | plans |\n|---|---|---|---|---|---|\n"
    rows = (
        "| 0 | — | — | 40% | 25% | — |\n| 20 | 0.6 | 0.002 | 43% | 30% | 62% |\n| 40 | 0.8 | 0.01 | 52% | 34% | 70% |\n"
    )
    run = read_log(write("notes.md", head + rows))
    assert_read(run, reward=[0.6, 0.8], step=[20, 40], evals={0: 0.325, 20: 0.365, 40: 0.43})
    assert "plans" in run.unused


def test_a_standard_deviation_is_no_part_and_a_normalized_total_is_named():
    rows = [
        {"step": i, "rewards/total_mean": 1e-9, "rewards/total_std": 1.0, "rewards/cer_std": 0.2, "rewards/raw_cer": x}
        for i, x in enumerate(VALUES)
    ]
    said = r"'rewards/total_mean', which is normalized: it is 0 in every row; name a part .*: rewards/raw_cer$"
    with pytest.raises(LogReadError, match=said):
        read_log(rows)
    run = read_log([{**row, "rewards/total_mean": 2 * row["rewards/raw_cer"]} for row in rows])
    assert_read(run, reward=[0.5, 1.0, 1.5], keys={"reward": "rewards/total_mean"})
    assert read_log(rows, columns={"reward": "rewards/raw_cer"}).reward.tolist() == [*VALUES]


def test_what_should_fall_is_not_suggested_as_an_evaluation():
    rows = [
        {"step": i, "reward": 0.1 * i, "heldout_violation_rate": 0.9 - 0.1 * i, "heldout_acc_hard": 0.1 * i}
        for i in range(1, 9)
    ]
    assert read_log(rows).suggested["heldout"] == ("heldout_acc_hard",)
    assert (
        "heldout" not in read_log([{k: v for k, v in row.items() if k != "heldout_acc_hard"} for row in rows]).suggested
    )


@pytest.mark.parametrize("key", ["log_type", "data split", "whose"])
def test_a_column_of_any_name_parts_training_and_evaluation(write, key):
    kinds = ["train", "train", "eval"] * 4
    table = f"step,{key},reward\n" + "".join(f"{i // 3},{kind},{0.1 * i:.1f}\n" for i, kind in enumerate(kinds))
    run = read_log(write("log.csv", table))
    assert run.eval_step.tolist() == [0, 1, 2, 3]
    assert len(run.reward) == 4
    rows = [{"step": i // 3, key: kind, "reward": 0.1 * i} for i, kind in enumerate(kinds)]
    assert read_log(write("log.jsonl", rows)).eval_step.tolist() == [0, 1, 2, 3]


def test_bytes_are_never_shown_as_text(write):
    data = bytes(x for x in range(1, 256)) * 8
    with pytest.raises(LogReadError, match=r"expected a log as text, .* found binary data; export") as error:
        read_log(write("log.bin", data))
    assert "seen:" not in str(error.value)


def test_less_than_one_prompt_a_step_is_no_setting(write):
    rows = [{"step": i, "reward": x} for i, x in enumerate(VALUES)]
    code = "GRPOConfig(num_generations=4, per_device_train_batch_size=1)"
    table = "".join(f"<tr><td>{r['step']}</td><td>{r['reward']}</td></tr>" for r in rows)
    outputs = [
        {
            "output_type": "display_data",
            "data": {"text/html": f"<table><tr><th>Step</th><th>reward</th></tr>{table}</table>"},
        }
    ]
    cells = [{"cell_type": "code", "source": code, "outputs": outputs}]
    run = read_log(write("run.ipynb", json.dumps({"nbformat": 4, "metadata": {}, "cells": cells})))
    assert_read(run, settings={"group_size": 4, "prompts_per_step": None})


def test_keys_of_functions_are_parts_whatever_their_weights():
    names = ("reward_format_reward_func", "reward_terminal_outcome_reward_func")
    rows = [{"step": i, "reward": (-1.0) ** i, names[0]: 0.1 * i, names[1]: 0.5} for i in range(1, 9)]
    assert {*read_log(rows).components} == {"format", "terminal_outcome"}
