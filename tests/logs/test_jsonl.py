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


def test_prime_rl_writes_two_files(write):
    orchestrator = write("a/metrics.jsonl", [{"step": s, "train/agg/all/m/reward/mean": 0.1 * s} for s in range(5)])
    trainer = write("b/metrics.jsonl", [{"step": s, "optim/grad_norm": 1.0 + s} for s in range(5)])
    run = read_log([orchestrator, trainer])
    assert_read(run, reward=0.1 * np.arange(5), signals={"grad_norm": 1.0 + np.arange(5)})
    assert str(trainer) in run.source


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
