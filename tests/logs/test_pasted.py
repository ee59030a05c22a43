"""Logs as people paste them: bytes that a disk left, lines of a callback, a state at the end of JSON lines."""

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read


def pasted(lines) -> str:
    return "\n".join(map(str, lines))


def rows(n: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(0)
    return [{"loss": 0.01, "reward": round(0.2 + 0.005 * i + 0.02 * rng.standard_normal(), 4)} for i in range(n)]


def rewards(n: int) -> list[float]:
    return [row["reward"] for row in rows(n)]


def test_verl_behind_a_long_configuration(write):
    config = [f"'reward_model{i}': {{'reward_kwargs': {{'steps': None, 'n': 1}}}}," for i in range(3000)]
    lines = [f"(TaskRunner pid=1) step:{i} - critic/score/mean:{0.01 * i} - actor/lr:1e-06" for i in range(1, 21)]
    run = read_log(write("run.log", pasted(config + lines)))
    assert_read(run, reward=0.01 * np.arange(1, 21), format="verl_console")


@pytest.mark.parametrize("width", [61, 97, 240])
def test_a_row_of_verl_that_a_terminal_has_wrapped(write, width):
    def line(i: int, reward: float) -> str:
        return (
            f"(TaskRunner pid=7) step:{i} - global_seqlen/mean:4794643.875 - actor/entropy:0.3{i:02d} - "
            f"actor/grad_norm:0.11136 - actor/lr:1e-06 - val-core/aime/acc/mean@30:0.4 - critic/score/mean:{reward} - "
            f"critic/rewards/mean:{reward} - response_length/mean:352.5 - response_length/clip_ratio:0.03 - "
            f"timing_s/step:12.5"
        )

    made = rows(20)
    text = []
    for i, row in enumerate(made, 1):
        whole = line(i, row["reward"])
        text += [whole[k : k + width] for k in range(0, len(whole), width)]
        text += [
            "Training Progress:   2%|██▉      | 60/99 [21:41:02<7621:31:21, 7978.33s/it]",
            "(Worker pid=8) Saved [x]",
        ]
    run = read_log(write("run.log", "\n".join(text)))
    assert_read(run, reward=[row["reward"] for row in made])
    assert len(run.signals) == 6
    assert len(run.eval_step) == 20
