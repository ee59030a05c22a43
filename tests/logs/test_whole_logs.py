"""What whole logs of scripts of one's own hold beside their reward: parts, evaluations, runs, steps."""

import json

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log

STEPS = range(1, 9)
RISING, OTHER = [0.1 * s for s in STEPS], [0.05 * s for s in STEPS]
SEEN = {
    "parts": lambda run: {name.removeprefix("rewards/"): key for name, key in run.part_keys.items()},
    "penalty": lambda run: run.components["copy_penalty"][-1],
    "kl": lambda run: run.definitions.get("kl"),
    "heldout": lambda run: run.keys.get("eval_reward"),
    "evaluations": lambda run: run.eval_reward.tolist(),
    "flat": lambda run: run.signals.get("frac_reward_zero_std", [None])[0],
    "rate": lambda run: run.signals.get("learning_rate", [None])[0],
    "planned": lambda run: run.settings.total_steps.value,
    "suggested": lambda run: run.suggested,
    "reward": lambda run: run.reward.tolist(),
    "steps": lambda run: [int(step) for step in run.step],
    "unknown": lambda run: any("not known" in note or "unknown" in note for note in run.notes),
    "cut": lambda run: any("ends before its step" in note for note in run.notes),
}
"""What of a run a case looks at."""


def rows(whole="reward_mean", /, **columns):
    """Eight rows with a mean reward and other columns, each a number or values by step."""
    found = [{k: x if not isinstance(x, list) else x[s - 1] for k, x in columns.items()} for s in STEPS]
    return [{"step": s, whole: 0.2 + 0.05 * s, **row} for s, row in zip(STEPS, found, strict=True)]


def seldom(*values, at=(2, 4, 6, 8)):
    """Values in some of the eight rows."""
    return [values[at.index(s)] if s in at else None for s in STEPS]


HITS = {"total": seldom(60, 60, 60, 60), "n_correct": seldom(30, 31, 33, 36), "accuracy": seldom(0.5, 0.6, 0.6, 0.9)}
UNEVEN = {key: seldom(60, 60, 60, at=(2, 4, 5)) for key in ("total", "accuracy", "other")}
IN_MEMORY = [
    (rows(fp_reward=0.5, task_reward=0.3), {"parts": {"fp": "fp_reward", "task": "task_reward"}}),
    (rows("mean_reward", fp_reward=0.5, mean_question_reward=0.3), {"parts": {}}),
    (rows("mean_reward", best_reward=0.5, max_reward=1.0, window_reward=0.4, ema_reward=0.4), {"parts": {}}),
    (rows(fp_reward=0.5, rare_reward=[0.5, *[None] * 7]), {"parts": {}}),
    (rows(verifier_reward_mean=0.0), {"parts": {"verifier": "verifier_reward_mean"}}),
    (rows(copy_penalty_mean=RISING), {"parts": {"copy_penalty": "-copy_penalty_mean"}, "penalty": -0.8}),
    (rows(copy_penalty_mean=-0.1), {"parts": {"copy_penalty": "copy_penalty_mean"}, "penalty": -0.1}),
    (rows(loss=0.2, loss_pg=0.1, loss_kl=0.1), {"kl": "penalty"}),
    (rows(loss=0.2, loss_kl=0.1), {"kl": None}),
    (rows("mean_reward", **HITS, hits=seldom(0.5, 31 / 60, 0.55, 0.6)), {"heldout": "hits"}),
    (rows("mean_reward", **HITS), {"heldout": "accuracy"}),
    (rows("mean_reward", **HITS | {"accuracy": RISING}), {"heldout": None}),
    (rows("mean_reward", **UNEVEN), {"heldout": None}),
    (rows(n_groups=[12, 18] * 4, skipped_groups=[8, 2] * 4), {"flat": 0.4}),
    (rows(n_groups=8, skipped_groups=[4, 2] * 4), {"flat": 0.5}),
    (rows(n_groups=[12, 18] * 4, skipped_groups=3), {"flat": None}),
    ([{"global_step": s, "reward": 0.1 * s, "max_steps": 100} for s in STEPS], {"planned": 100}),
    ([{"step": s, "reward": 0.1 * s, "max_steps": 100} for s in STEPS], {"planned": None}),
    (rows(**{"my pass@4": RISING}), {"suggested": {}}),
    (rows(**{"my pass@1": RISING}), {"suggested": {"accuracy": ("my pass@1",)}}),
    (rows(**{"frac hit 512 limit": RISING}), {"suggested": {"completions_clipped_ratio": ("frac hit 512 limit",)}}),
]


BAR = " 1%|x| {}/300 [00:01<00:02, 5.00s/it]\r"
TOLD = "[Step {}] Text: a\n\n{{'loss': 0.1, 'reward': 0.5}}\n"
LAST = "{'loss': 0.2, 'reward': 0.9,"
SKYRL = "Training Batches Processed:  1%|x| {0}/80 [00:01<00:02, 5.00s/it]\nreward/avg_raw_reward: 0.{0}\n"
TABLE = "{}\n\n| step | reward | test d4 / d8 |\n|---|---|---|\n| 1 | 0.1 | 0.5 / 0.3 |\n| 2 | {} | 0.6 / 0.2 |\n\n"
TWO = TABLE.format("**Run A:**", 0.2) + TABLE.format("## Run B (beta 0)", 0.3)
PLAN = {"training_steps": 90}
VERSIONS = json.dumps({"reward_log_v1": RISING, "reward_log_v2": OTHER, "step_log": [*range(10, 90, 10)]} | PLAN)
LETTERS = {"reward_a": RISING, "reward_b": OTHER}
DUMPED = "(TaskRunner pid=7) [score] -0.9\n(TaskRunner pid=7) Dumped generations to out/rollout_data/2.jsonl\n"


def late(*printed, falls=0):
    """Dictionaries behind bars that have gone on to other steps, with a learning rate that falls."""
    bars = [BAR.format(at) if at not in printed[:i] else "" for i, at in enumerate(printed)]
    rates = [1e-5 * (1 - falls * k / 300) for k in STEPS]
    found = (f"{bar}{ {'reward': 0.5, 'learning_rate': rate} }\n" for bar, rate in zip(bars, rates, strict=False))
    return "".join(found) + BAR.format(100)


def dicts(*steps):
    """Dictionaries that end with their steps."""
    return "".join(f"{ {'loss': 0.1, 'reward': 0.5, 'step': s} }\n" for s in steps)


def verl(rate):
    """Rows of verl's console with a learning rate."""
    return "".join(f"step:{i} - critic/score/mean:0.{i} - actor/{rate} - actor/kl_loss:0.001\n" for i in STEPS)


IN_FILES = [
    (late(20, 20, 20, 20), {}, {"steps": [5, 10, 15, 20], "unknown": False}),
    (late(20, 20, 20, 20, 30, 30), {}, {"steps": [5, 10, 15, 20, 25, 30], "unknown": False}),
    (late(22, 22, 22, 22, falls=5), {}, {"steps": [5, 10, 15, 20], "unknown": False}),
    (late(40, 40, 40, 40, falls=5), {}, {"steps": [1, 2, 3, 4], "unknown": True}),
    (late(22, 22, 22, 22), {}, {"steps": [1, 2, 3, 4], "unknown": True}),
    (dicts(1, 2, 3, 4) + LAST, {}, {"steps": [1, 2, 3, 4, 5], "cut": True}),
    (dicts(10, 20, 35, 40) + LAST, {}, {"steps": [10, 20, 35, 40], "cut": False}),
    (dicts(1, 2, 3, 4) + "{'reward': 0.9,", {}, {"steps": [1, 2, 3, 4], "cut": False}),
    (TOLD.format(7) + TOLD.format(9), {}, {"steps": [7, 9]}),
    ("".join(map(SKYRL.format, (1, 2, 3))), {}, {"steps": [2, 3, 4]}),
    (verl("lr:0.000"), {}, {"rate": None, "unknown": True}),
    (verl("lr:0.001"), {}, {"rate": 0.001, "unknown": False}),
    (verl("lr(1e-4):0.010"), {}, {"rate": pytest.approx(1e-6)}),
    (VERSIONS, {"run": "v2"}, {"reward": OTHER, "steps": [*range(10, 90, 10)], "planned": 90}),
    (json.dumps(LETTERS | {"loss_a": OTHER, "loss_b": OTHER}), {"run": "b"}, {"reward": OTHER}),
    (json.dumps({"reward": RISING, "reward_v1": OTHER, "reward_v2": OTHER}), {}, {"reward": RISING}),
    (TWO, {"run": "Run B"}, {"reward": [0.1, 0.3]}),
    (TWO, {"run": "table 1"}, {"reward": [0.1, 0.2]}),
    (TABLE.format("", 0.2), {"columns": {"heldout": "test d8"}}, {"evaluations": [0.3, 0.2]}),
    (VERSIONS, {}, "expected one run, found 2: v1, v2"),
    (json.dumps(LETTERS), {}, "several that differ: reward_a, reward_b"),
    (TWO, {}, r"found 2: Run A \(.*, Run B \(beta 0\) \("),
    (DUMPED, {}, "bayes-grpo rollouts out/rollout_data"),
]


@pytest.mark.parametrize(("log", "options", "seen"), [*((x, {}, seen) for x, seen in IN_MEMORY), *IN_FILES])
def test_what_a_log_holds_beside_its_reward(tmp_path, log, options, seen):
    if isinstance(log, str):
        (tmp_path / "log").write_text(log)
        log = tmp_path / "log"
    if isinstance(seen, str):
        with pytest.raises(LogReadError, match=seen):
            read_log(log)
    else:
        run = read_log(log, **options)
        assert {name: SEEN[name](run) for name in seen} == seen
