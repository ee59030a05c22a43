"""verl: its file logger, its console through Ray, its evaluations."""

import numpy as np
import pytest

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


def line(step: int, wrap: str = "{}") -> str:
    return f"step:{step} - " + " - ".join(f"{k}:{wrap.format(v)}" for k, v in row(step).items())


def check(run, **more):
    signals = {"kl": 0.001, "completions_clipped_ratio": 0.1}
    assert_read(run, step=STEPS, reward=0.1 * run.step, signals=signals, keys={"reward": "critic/score/mean"}, **more)


def test_file_logger_with_the_defaults_of_verl(write):
    logged = rows()
    logged.insert(0, {"step": 0, "data": {"val-core/gsm8k/acc/mean@1": 0.2, "val-aux/gsm8k/reward/std@4": 9.0}})
    logged[3]["data"]["val-core/gsm8k/acc/mean@1"] = 0.6
    run = read_log(write("run.jsonl", logged))
    settings = {"prompts_per_step": (1024, "assumed"), "schedule": "logged"}
    check(run, evals={0: 0.2, 3: 0.6}, settings=settings, format="jsonl")
    assert "verl" in run.settings.prompts_per_step.note


def test_a_group_that_is_not_stated_is_not_known(write):
    """verl's default of 1 is for other algorithms: as an assumed group it made every number that follows nonsense."""
    run = read_log(write("run.jsonl", rows()))
    assert run.settings.group_size.value is None
    assert "--set group_size=…" in run.settings.group_size.note
    assert run.to_dict()["settings"]["group_size"]["provenance"] == "none"
    write("bayes_grpo.toml", "[settings]\ngroup_size = 8\n")
    assert_read(read_log(write("run.jsonl", rows())), settings={"group_size": (8, "config")})


def test_several_sources_are_averaged_and_one_can_be_named(write):
    logged = rows()
    more = {"val-core/a/acc/mean@8": 0.2, "val-core/b/acc/mean@8": 0.6, "val-core/a/acc/best@8/mean": 0.9}
    logged[4]["data"] |= more
    path = write("run.jsonl", logged)
    assert_read(read_log(path), "--column heldout", evals={5: 0.4})
    assert_read(read_log(path, columns={"heldout": "val-core/b/acc/mean@8"}), evals={5: 0.6})


@pytest.mark.parametrize("wrap", ["{}", "np.float64({})"])
@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "(TaskRunner pid=3232) ",
        "\x1b[36m(TaskRunner pid=42, ip=10.0.0.7)\x1b[0m ",
        "Epoch 0:  10%|█   | 1/10 [00:09<01:21,  9.1s/it]",
    ],
)
def test_console(write, wrap, prefix):
    lines = ["(TaskRunner pid=3232) {'actor_rollout_ref': {'actor': {'lr': 1e-06}}}"]
    lines += [f"{prefix}step:0 - val-core/x/acc/mean@1:0.25", *(prefix + line(s, wrap) for s in STEPS)]
    lines += ["saved to /ckpt/global_step:9 - done", "timing_s/step:3 - x:1"]
    lines.insert(1, "(WorkerDict pid=3240) Total steps: 100, num_warmup_steps: 5")
    settings = {"total_steps": (100, "logged")}
    run = read_log(write("train.log", "\n".join(lines) + "\n"))
    check(run, evals={0: 0.25}, settings=settings, format="verl_console")


def test_a_rate_printed_as_zero_is_no_schedule(write):
    text = "\n".join(f"step:{s} - critic/score/mean:0.{s} - actor/lr:0.000" for s in STEPS)
    assert_read(read_log(write("train.log", text)), settings={"schedule": ("constant", "assumed")})


def test_a_row_over_lines_that_each_hold_whole_pairs(write):
    row = "training/global_step:{0} - actor/loss:-0.0013 - actor/lr:0.0003\n"
    row += "critic/rewards/mean:0.{0} - critic/x/y:-1.3e-08\ntiming_s/gen:228.2 - timing_s/step:408.8\n\n"
    run = read_log(write("a.txt", "".join(map(row.format, (302, 303))) + "training/global_step:304\n"))
    assert_read(run, step=[302, 303], reward=[0.302, 0.303], signals={"learning_rate": 0.0003, "step_time": 408.8})


def test_auxiliary_scores_of_a_validation_are_no_train_reward(write):
    line = "step:4 - actor/pg_loss:0.02 - val-aux/{0}/reward/mean@1:0.{1} - val-aux/{0}/score/mean@1:0.9 - "
    line = "".join(
        line.removeprefix("step:4 - " * (i > 0)).format(*x) for i, x in enumerate([("math", 7), ("aime", 1)])
    )
    run = read_log(write("a.log", f"{line}val-core/math/acc/mean@1:0.7 - val-core/aime/acc/mean@1:0.1\n"))
    assert_read(run, "only the evaluation reward", evals={4: 0.4})


def test_pairs_between_blanks(write):
    lines = [
        "step:2   critic/score/mean:0.15    # the first program that passes",
        "step:4 critic/score/mean:0.25 actor/grad_norm:0.5",
        "step:8   val-core/a/acc/mean@1:0.25",
        "         val-core/b/acc/mean@1:0.75",
    ]
    run = read_log(write("a.md", "\n".join(["Output:", "", "```", *lines, "```"])))
    assert_read(run, step=[2, 4], reward=[0.15, 0.25], evals={8: 0.5}, signals={"grad_norm": [np.nan, 0.5]})
