"""verl: its file logger, its console through Ray, its evaluations."""

import numpy as np

from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

KEYS = {
    "actor/entropy": 0.4,
    "actor/pg_loss": -0.1,
    "actor/kl_loss": 0.001,
    "actor/ppo_kl": 0.5,
    "actor/pg_clipfrac": 0.002,
    "actor/grad_norm": 0.35,
    "actor/lr": 1e-6,
    "critic/rewards/mean": 9.0,
    "critic/score/max": 1.0,
    "response_length/mean": 300.0,
    "response_length/clip_ratio": 0.1,
    "timing_s/step": 30.0,
}
STEPS = range(1, 6)


def row(step: int) -> dict[str, float]:
    return {"critic/score/mean": 0.1 * step, **KEYS, "training/global_step": step}


def rows() -> list[dict]:
    return [{"step": s, "data": row(s)} for s in STEPS]


def test_a_group_that_is_not_stated_is_not_known(write):
    """verl's default of 1 is for other algorithms: as an assumed group it made every number that follows nonsense."""
    run = read_log(write("run.jsonl", rows()))
    assert run.settings.group_size.value is None
    assert "--set group_size=…" in run.settings.group_size.note
    assert run.to_dict()["settings"]["group_size"]["provenance"] == "none"
    write("bayes_grpo.toml", "[settings]\ngroup_size = 8\n")
    assert_read(read_log(write("run.jsonl", rows())), settings={"group_size": (8, "config")})


def test_verl_behind_a_long_configuration(write):
    config = [f"'reward_model{i}': {{'reward_kwargs': {{'steps': None, 'n': 1}}}}," for i in range(3000)]
    lines = [f"(TaskRunner pid=1) step:{i} - critic/score/mean:{0.01 * i} - actor/lr:1e-06" for i in range(1, 21)]
    run = read_log(write("run.log", "\n".join([*config, *lines])))
    assert_read(run, reward=0.01 * np.arange(1, 21), format="verl_console")
