"""What is read as the reward where no key has that name, which training is meant, and what a refusal describes."""

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

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


def test_bytes_are_never_shown_as_text(write):
    data = bytes(x for x in range(1, 256)) * 8
    with pytest.raises(LogReadError, match=r"expected a log as text, .* found binary data; export") as error:
        read_log(write("log.bin", data))
    assert "seen:" not in str(error.value)


def test_functions_named_as_in_notebooks_of_trl_are_added_up(write):
    keys = ("format_reward_func", "correctness_reward_func")
    rows = [{"step": i, keys[0]: 0.5, keys[1]: 0.1 * i, "kl": 0.01} for i in range(1, 5)]
    run = read_log(rows)
    assert_read(run, "weight 1 each", reward=[0.5 + 0.1 * i for i in range(1, 5)])
    assert read_log([{**row, "reward": 0.3 * i} for i, row in enumerate(rows)]).keys["reward"] == "reward"


def test_the_sum_of_keys_can_be_named_as_the_reward(write):
    rows = [{"step": i, "reward_format": 0.5, "reward_answer": 0.1 * i} for i in range(1, 5)]
    with pytest.raises(LogReadError, match=r"read like reward functions; choose with .* \(KEY\+KEY for their sum"):
        read_log(rows)
    run = read_log(rows, columns={"reward": "reward_format + reward_answer"})
    np.testing.assert_allclose(run.reward, [0.5 + 0.1 * i for i in range(1, 5)])
    with pytest.raises(LogReadError, match="'other' is not in the log"):
        read_log(rows, columns={"reward": "reward_format+other"})
    odd = read_log([{"step": i, "a+b": 0.1 * i, "a": 1.0} for i in range(1, 5)], columns={"reward": "a+b"})
    np.testing.assert_allclose(odd.reward, [0.1 * i for i in range(1, 5)])


def test_the_score_beside_the_scores_of_its_parts():
    rows = [{"step": i, "score": 0.1 * i, "format_score": 1.0, "answer_score": 0.2 / i} for i in range(1, 5)]
    run = read_log(rows)
    assert_read(run, "next to its parts or averages", reward=[0.1 * i for i in range(1, 5)])
    with pytest.raises(LogReadError, match="several that differ"):
        read_log([{**row, "best_score": 0.9} for row in rows])


def test_a_reward_goes_before_the_score_of_the_same_form():
    rows = [{"step": i, "score_curve": 0.9, "reward_curve": 0.1 * i} for i in range(1, 5)]
    assert_read(read_log(rows), "of the same form: score_curve left out", reward=[0.1 * i for i in range(1, 5)])
    with pytest.raises(LogReadError, match="several that differ"):
        read_log([{"step": i, "score_curve": 0.9, "reward_at_end": 0.1 * i} for i in range(1, 5)])


@pytest.mark.parametrize("name", ["reward_curve", "ppo-rewards", "eval_reward", "loss_curve"])
def test_a_mean_in_a_file_that_is_named_for_rewards(write, name):
    rows = [{"step": i, "mean": 0.1 * i, "max": 0.2 * i, "min": 0.0} for i in range(1, 5)]
    path = write(f"{name}.json", rows)
    if name in ("eval_reward", "loss_curve"):
        with pytest.raises(LogReadError, match="if it is among mean, max, min"):
            read_log(path)
    else:
        assert_read(read_log(path), "named for rewards: mean, max, min are", reward=[0.1 * i for i in range(1, 5)])
        assert read_log(path, columns={"reward": "max"}).keys["reward"] == "max"
