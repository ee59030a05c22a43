"""What a refusal of rows without a reward describes."""

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log

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
