"""Logs as people paste them: bytes that a disk left, lines of a callback, a state at the end of JSON lines."""

import json

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

LINES = [
    {"loss": 0.01 * i, "grad_norm": 0.3, "reward": round(0.2 + 0.01 * i, 4), "epoch": round(0.02 * i, 2)}
    for i in range(1, 25)
]
REWARD = [row["reward"] for row in LINES]


def pasted(rows) -> str:
    return "\n".join(map(str, rows))


def test_nul_bytes_in_a_text_are_left_out_with_a_note(write):
    lines = [json.dumps({"step": i} | row) for i, row in enumerate(LINES, 1)]
    run = read_log(write("log.jsonl", "\n".join([*lines[:12], "\0" * 300, *lines[12:]])))
    assert_read(run, "300 NUL bytes left out", step=range(1, 25))


def test_dictionaries_beat_the_lines_that_a_callback_prints_beside_them(write):
    text = [f"{row}\n[STEP {i:3d}] loss=0.01 r_mean={row['reward']:+.1f}" for i, row in enumerate(LINES, 1)]
    assert_read(read_log(write("run.log", "\n".join(text))), reward=REWARD, format="console_dict")


def test_json_lines_that_close_with_a_state_are_json_lines(write):
    lines = [row | {"global_step/max_steps": f"{i}/40"} for i, row in enumerate(LINES, 1)]
    state = {"last_model_checkpoint": "x", "global_step": 40, "max_steps": 40, "log_history": []}
    assert len(read_log(write("logging.jsonl", [*lines, state])).reward) == 24


def test_a_total_of_environments_is_the_reward(write):
    rows = [
        {"step": i, "reward/all/mean": 0.7 - 0.01 * i, "reward/math/mean": 0.5, "reward/code/mean": 0.9 - 0.02 * i}
        for i in range(1, 25)
    ]
    run = read_log(write("log.jsonl", rows))
    assert run.keys["reward"] == "reward/all/mean"
    assert set(run.environments) == {"math", "code"}


def test_dictionaries_that_were_pasted_without_their_braces(write):
    for before, after in (("", ""), ("", "}"), ("  ", ",")):
        run = read_log(write("pasted.txt", pasted(before + str(row)[1:-1] + after for row in LINES)))
        assert_read(run, reward=REWARD, format="console_dict")
    with pytest.raises(LogReadError, match="no reader knows"):
        read_log(write("a.txt", pasted(f"'reward': {i}" for i in range(9))))


def test_a_closing_line_does_not_cost_the_step_axis(write):
    closing = {"train_runtime": 4.0, "train_steps_per_second": 0.04, "reward": 0.5, "epoch": 1.0}
    text = pasted([*LINES, closing, "100%|####| 480/480 [1:08:23<00:00,  4.46s/it]"])
    assert_read(read_log(write("run.log", text)), step=range(20, 500, 20), settings={"logging_window": 20})


def completions(**names):
    rng = np.random.default_rng(1)
    return [
        {name: f(group) for name, f in names.items()} | {"reward": {"format": 1.0, "total": float(rng.random() < 0.5)}}
        for group in range(12)
        for _ in range(4)
    ]


@pytest.mark.parametrize("names", [{"task_id": "task {}".format}, {"prompt_id": int}])
def test_one_line_a_completion_is_read_by_group_in_order(write, names):
    rows = completions(**names)
    means = np.reshape([row["reward"]["total"] for row in rows], (12, 4)).mean(axis=1)
    note = f"the 4 of each '{next(iter(names))}' are averaged"
    assert_read(read_log(write("log.jsonl", rows)), note, reward=means)


def test_one_line_a_completion_without_a_group_is_referred_to_rollouts(write):
    with pytest.raises(LogReadError, match=r"48 lines of one completion each .*bayes-grpo rollouts"):
        read_log(write("log.jsonl", completions(completion="text {}".format)))
    one_a_prompt = "task_id,reward\n" + "".join(f"t{i % 7},{0.01 * i}\n" for i in range(40))
    assert len(read_log(write("a.csv", one_a_prompt)).reward) == 40


def test_verl_behind_a_long_configuration(write):
    config = [f"'reward_model{i}': {{'reward_kwargs': {{'steps': None, 'n': 1}}}}," for i in range(3000)]
    lines = [f"(TaskRunner pid=1) step:{i} - critic/score/mean:{0.01 * i} - actor/lr:1e-06" for i in range(1, 21)]
    run = read_log(write("run.log", pasted(config + lines)))
    assert_read(run, reward=0.01 * np.arange(1, 21), format="verl_console")


def test_counts_of_outcomes_are_mean_rewards_of_training_and_evaluation(write):
    def outcomes(right, n):
        return {"correct with both format and answer reward 1": right, "format reward 1 and answer reward 0": n - right}

    lines = [f"histogram:  {outcomes(10 + i, 64)}" for i in range(20)]
    for place in (15, 10, 5):
        lines.insert(place, f"histogram:  {outcomes(100 + place, 500)}")
    run = read_log(write("loop.txt", pasted(lines)))
    np.testing.assert_allclose(run.reward, (10 + np.arange(20)) / 64)
    np.testing.assert_allclose(run.eval_reward, [0.21, 0.22, 0.23])


def test_keys_of_newer_trainers_are_known(write):
    rows = [row | {"flat_group_fraction": 0.25, "distillation_loss": 0.1, "step": i} for i, row in enumerate(LINES)]
    assert_read(read_log(write("log.jsonl", rows)), signals={"frac_reward_zero_std": 0.25})


@pytest.mark.parametrize("in_turns", [True, False])
def test_what_two_processes_print_counts_once(write, in_turns):
    in_blocks = [*LINES[:12], *LINES[:12], *LINES[12:], *LINES[12:]]
    run = read_log(write("run.log", pasted([x for row in LINES for x in (row, row)] if in_turns else in_blocks)))
    assert_read(run, "every dictionary is printed 2 times, as by 2 processes", reward=REWARD, trainings=())
    text = [*LINES, *LINES[:3], *LINES[:3]]  # some happen to be equal
    run = read_log(write("run.log", pasted(row | {"step": i} for i, row in enumerate(text))))
    assert len(run.reward) == len(text)
