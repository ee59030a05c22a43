"""What is read as the reward where no key has that name, which training is meant, and what a refusal describes."""

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

VALUES = (0.25, 0.5, 0.75)


def test_parts_of_a_reward_come_before_an_accuracy():
    rows = [{"step": i, "accuracy": 0.5, "rewards/a/mean": x, "rewards/b/mean": x} for i, x in enumerate(VALUES)]
    run = read_log(rows)
    assert_read(run, "it is the sum of", reward=[0.5, 1.0, 1.5], signals={"accuracy": 0.5})


def test_the_score_is_the_reward_and_not_the_score_less_its_penalty(write):
    rows = [{"step": i, "critic/score/mean": x, "critic/rewards/mean": x - 9.0} for i, x in enumerate(VALUES)]
    assert_read(read_log(rows), reward=VALUES, keys={"reward": "critic/score/mean"})


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


def test_bytes_are_never_shown_as_text(write):
    data = bytes(x for x in range(1, 256)) * 8
    with pytest.raises(LogReadError, match=r"expected a log as text, .* found binary data; export") as error:
        read_log(write("log.bin", data))
    assert "seen:" not in str(error.value)


def test_keys_of_functions_are_parts_whatever_their_weights():
    names = ("reward_format_reward_func", "reward_terminal_outcome_reward_func")
    rows = [{"step": i, "reward": (-1.0) ** i, names[0]: 0.1 * i, names[1]: 0.5} for i in range(1, 9)]
    assert {*read_log(rows).components} == {"format", "terminal_outcome"}
