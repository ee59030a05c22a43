import numpy as np
import pytest

from bayes_grpo.logs import Provenance, read_log

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


def row(step: int) -> dict[str, float]:
    return {"critic/score/mean": 0.1 * step, **KEYS, "training/global_step": step}


def line(step: int, wrap: str = "{}") -> str:
    return f"step:{step} - " + " - ".join(f"{k}:{wrap.format(v)}" for k, v in row(step).items())


def check(run):
    np.testing.assert_array_equal(run.step, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(run.reward, 0.1 * run.step)
    np.testing.assert_array_equal(run.signals["kl"], [0.001] * 5)
    np.testing.assert_array_equal(run.signals["completions_clipped_ratio"], [0.1] * 5)
    assert run.keys["reward"] == "critic/score/mean"


def test_file_logger(write):
    rows = [{"step": s, "data": row(s)} for s in range(1, 6)]
    rows.insert(0, {"step": 0, "data": {"val-core/gsm8k/acc/mean@1": 0.2, "val-aux/gsm8k/reward/std@4": 9.0}})
    rows[3]["data"]["val-core/gsm8k/acc/mean@1"] = 0.6
    run = read_log(write("run.jsonl", rows))
    assert run.format == "jsonl"
    check(run)
    np.testing.assert_array_equal((run.eval_step, run.eval_reward), ([0, 3], [0.2, 0.6]))


def test_defaults_are_those_of_verl(write):
    s = read_log(write("run.jsonl", [{"step": i, "data": row(i)} for i in range(1, 6)])).settings
    assert (s.prompts_per_step.value, s.prompts_per_step.provenance) == (1024, Provenance.ASSUMED)
    assert s.schedule.value == "logged"
    assert "verl" in s.prompts_per_step.note


def test_a_group_that_is_not_stated_is_not_known(write):
    """verl's default of 1 is for other algorithms: as an assumed group it made every number that follows nonsense."""
    run = read_log(write("run.jsonl", [{"step": i, "data": row(i)} for i in range(1, 6)]))
    assert run.settings.group_size.value is None
    assert "--set group_size=…" in run.settings.group_size.note
    assert run.to_dict()["settings"]["group_size"]["provenance"] == "none"
    write("bayes_grpo.toml", "[settings]\ngroup_size = 8\n")
    stated = read_log(write("run.jsonl", [{"step": i, "data": row(i)} for i in range(1, 6)]))
    assert (stated.settings.group_size.value, stated.settings.group_size.provenance) == (8, Provenance.CONFIG)


def test_several_sources_are_averaged_and_one_can_be_named(write):
    rows = [{"step": s, "data": row(s)} for s in range(1, 6)]
    rows[4]["data"] |= {
        "val-core/a/acc/mean@8": 0.2,
        "val-core/b/acc/mean@8": 0.6,
        "val-core/a/acc/best@8/mean": 0.9,
    }
    path = write("run.jsonl", rows)
    run = read_log(path)
    np.testing.assert_allclose(run.eval_reward, [0.4])
    assert any("--column heldout" in n for n in run.notes)
    np.testing.assert_array_equal(read_log(path, columns={"heldout": "val-core/b/acc/mean@8"}).eval_reward, [0.6])


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
    lines = [
        "(TaskRunner pid=3232) {'actor_rollout_ref': {'actor': {'lr': 1e-06}}}",
        f"{prefix}step:0 - val-core/x/acc/mean@1:0.25",
    ]
    lines += [prefix + line(s, wrap) for s in range(1, 6)]
    lines += ["saved to /ckpt/global_step:9 - done", "timing_s/step:3 - x:1"]
    run = read_log(write("train.log", "\n".join(lines) + "\n"))
    assert run.format == "verl_console"
    check(run)
    np.testing.assert_array_equal((run.eval_step, run.eval_reward), ([0], [0.25]))


def test_a_rate_printed_as_zero_is_no_schedule(write):
    text = "\n".join(f"step:{s} - critic/score/mean:0.{s} - actor/lr:0.000" for s in range(1, 6))
    run = read_log(write("train.log", text))
    assert (run.settings.schedule.value, run.settings.schedule.provenance) == ("constant", Provenance.ASSUMED)
