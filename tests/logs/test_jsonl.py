"""One JSON object a line: several lines a step, kinds of lines, numbers as text, cut and broken lines, UTF-16."""

import hashlib
import json

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

STEPS = range(1, 6)


def rows_of(steps=STEPS, **more):
    return [{"step": s, "reward": 0.1 * s} | more for s in steps]


def test_prime_rl_several_lines_a_step_and_two_files(write):
    rows = []
    for s in range(5):
        rows += [
            {"step": s, "time/step": 9.0},
            {"step": s, "optim/lr": 1e-6, "optim/grad_norm": 0.1},
            {"step": s, "entropy/all/mean": 0.3, "mismatch_kl/all/mean": 0.01},
            {"step": s, "train/agg/all/main/reward/mean": 0.1 * s, "train/agg/effective/main/reward/mean": 9.0},
        ]
    rows.append({"step": 2, "eval/math/all/main/avg@4": 0.55, "eval/math/all/main/pass@4": 0.9})
    run = read_log(write("metrics.jsonl", rows))
    assert_read(run, reward=0.1 * np.arange(5), evals={2: 0.55})
    assert set(run.signals) == {"learning_rate", "grad_norm", "entropy", "engine_mismatch", "step_time"}
    assert all(np.isfinite(v).all() for v in run.signals.values())
    orchestrator = write("a/metrics.jsonl", [{"step": s, "train/agg/all/m/reward/mean": 0.1 * s} for s in range(5)])
    trainer = write("b/metrics.jsonl", [{"step": s, "optim/grad_norm": 1.0 + s} for s in range(5)])
    run = read_log([orchestrator, trainer])
    assert_read(run, reward=0.1 * np.arange(5), signals={"grad_norm": 1.0 + np.arange(5)})
    assert str(trainer) in run.source


def typed_rows(updates: int, rollouts: int = 8) -> list[dict]:
    """A script's own log: a rollout, the updates made with it, and an evaluation, each a line of its own."""
    rows: list[dict] = [{"type": "eval", "grpo_step": 0, "optimizer_step": 0, "reward": 0.05, "eval_seconds": 9.0}]
    for r in range(1, rollouts + 1):
        rows.append({"type": "rollout", "grpo_step": r, "reward": 0.1 * r, "mean_reward": 0.1 * r, "std_reward": 0.4})
        for u in range(1, updates + 1):
            part = 0.1 * r + 0.02 * (u - (updates + 1) / 2)  # of the rollout, whose mean is its reward
            step = updates * (r - 1) + u
            rows.append({"type": "train", "grpo_step": r, "optimizer_step": step, "train_reward": part, "loss": 0.5})
        if r % 4 == 0:
            rows.append({"type": "eval", "grpo_step": r, "optimizer_step": updates * r, "reward": 0.01 * r})
    return rows


def test_settings_that_every_record_repeats(write):
    rows = typed_rows(4)
    for row in rows:
        row |= {"group_size": 8.0} if row["type"] == "rollout" else {}
        row |= {"epochs_per_rollout_batch": 2, "rollout_batch_size": 64, "train_batch_size": 32}
    run = read_log(write("metrics.jsonl", rows))
    assert_read(run, settings={"group_size": 8, "prompts_per_step": 4, "refresh_interval": 4})
    assert run.settings.group_size.note == "'group_size' in every record"
    rows[-2]["group_size"] = 16  # it changes: no setting of the run
    assert read_log(write("other.jsonl", rows)).settings.group_size.value is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("cut", [0, 1, 7])
def test_utf_16_as_powershell_writes_it(write, encoding, cut):
    text = "".join(json.dumps(row) + "\r\n" for row in rows_of(note="grün € 上"))
    mark = "\ufeff".encode(encoding) if encoding == "utf-16-be" else b""
    data = mark + text.encode(encoding)
    path = write("log.jsonl", data[: len(data) - cut])
    assert_read(read_log(path, whole_lines=True), step=STEPS if cut < 7 else range(1, 5), without=("NUL",))
    assert read_log(path).log_hash == hashlib.sha256(path.read_bytes()).hexdigest()
    table = "step;reward\n" + "".join(f"{s};0,{s}\n" for s in STEPS)
    assert_read(read_log(write("a.csv", mark + table.encode(encoding))), reward=np.arange(1, 6) / 10)
