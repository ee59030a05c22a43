"""Shapes of the same rows that people's scripts write, each read alike: other rows are in ``samples/shapes.txt``."""

import json

import pytest

from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

STEP = [10, 20, 30, 40]
REWARD = [0.25, 0.3, 0.35, 0.5]
KL = [0.001, 0.002, 0.004, 0.003]
COLUMNS = {"step": STEP, "reward": REWARD, "kl": KL}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
VALUES = [{k: v for k, v in row.items() if k != "step"} for row in ROWS]
METRICS = {"reward": REWARD, "kl": KL}
PAIRS = {k: [[*x] for x in zip(STEP, v, strict=True)] for k, v in METRICS.items()}
POINTS = {k: [{"x": x, "y": y} for x, y in v] for k, v in PAIRS.items()}
TIMED = {f"runs/a/train/{k}": [[1.7e9 + x, x, y] for x, y in v] for k, v in PAIRS.items()}
PRINTED = [f"step {r['step']}: reward={r['reward']} kl={r['kl']}" for r in ROWS]
LONG = [{"step": x, "metric": k, "value": y} for k, v in PAIRS.items() for x, y in v]

DOCUMENTS = {
    "objects by number": {str(s): v for s, v in zip(STEP, VALUES, strict=True)},
    "objects by checkpoint": {f"checkpoint-{s}": v for s, v in zip(STEP, VALUES, strict=True)} | {"best": VALUES[0]},
    "below a key": {"config": {"lr": 1e-6}, "training": {str(s): v for s, v in zip(STEP, VALUES, strict=True)}},
    "pandas index": {str(i): row for i, row in enumerate(ROWS)},
    "pandas columns": {k: {str(i): x for i, x in enumerate(v)} for k, v in COLUMNS.items()},
    "pandas split": {"columns": [*COLUMNS], "index": [0, 1, 2, 3], "data": [[*row.values()] for row in ROWS]},
    "lists below a heading": [[*COLUMNS], *([*row.values()] for row in ROWS)],
    "pairs below a key": {"metrics": PAIRS},
    "values by step": {k: {str(x): y for x, y in v} for k, v in PAIRS.items()},
    "steps and values": {k: {"steps": STEP, "values": v} for k, v in METRICS.items()},
    "curves": [{"name": k, "data": v} for k, v in POINTS.items()],
    "curves with axes": {"data": [{"name": k, "x": STEP, "y": v} for k, v in METRICS.items()], "layout": {}},
    "scalars with times": TIMED,
    "long below a key": {"metrics": [{"key": x["metric"], **{k: x[k] for k in ("step", "value")}} for x in LONG]},
    "steps beside": {"steps": STEP, "metrics": METRICS},
    "messages": [{"level": "INFO", "message": line} for line in PRINTED],
    "messages below a key": {"events": [{"timestamp": i, "message": line} for i, line in enumerate(PRINTED)]},
    "texts": {"job": "a", "logs": PRINTED},
}
LINES = {
    "long": LONG,
    "JSON in a text": [{"step": s, "metrics": json.dumps(v)} for s, v in zip(STEP, VALUES, strict=True)],
    "texts that name metrics": [{"step": x["step"], "what": x["metric"], "number": x["value"]} for x in LONG],
    "payload": [{"event": "train_step", "ts": 1, "payload": row} for row in ROWS],
    "payload in a payload": [{"severity": "INFO", "jsonPayload": {"metrics": row}} for row in ROWS],
    "Docker": [{"log": json.dumps(row) + "\n", "stream": "stdout", "time": "2025"} for row in ROWS],
}


def delimited(rows, by=","):
    return "".join(by.join(map(str, row)) + "\n" for row in rows)


def quoted(value):
    return '"' + json.dumps(value).replace('"', '""') + '"'


TEXTS = {
    "long.csv": delimited([("step", "metric", "value"), *([*x.values()] for x in LONG)]),
    "tensorboard.csv": delimited([("wall_time", "tag", "step", "value")])
    + delimited([1.7e9, f"train/{x['metric']}", x["step"], x["value"]] for x in LONG),
    "turned.csv": delimited([("metric", *(f"step_{s}" for s in STEP)), *((k, *v) for k, v in METRICS.items())]),
    "turned frame.csv": delimited([("", 0, 1, 2, 3), *((k, *v) for k, v in COLUMNS.items())]),
    "turned.txt": delimited([("step", *STEP), *((k, *v) for k, v in METRICS.items())], " "),
    "comment.dat": "# made by a script\n# " + delimited([COLUMNS, *(r.values() for r in ROWS)], " "),
    "cells.txt": "[4/4 01:00]\n" + delimited(([*COLUMNS, *(x for r in ROWS for x in r.values())],), "\n"),
    "dictionary.txt": f"history = {COLUMNS}",
    "numpy.txt": f"history = {COLUMNS}".replace("0.25", "np.float64(0.25)").replace("10,", "np.int64(10),"),
    "lists.yaml": "".join(f"{k}:\n" + "".join(f"- {x}\n" for x in v) for k, v in COLUMNS.items()),
    "steps.yaml": "train:\n" + "".join(f"  {r['step']}:\n    reward: {r['reward']}\n    kl: {r['kl']}\n" for r in ROWS),
    "json in cells.csv": "step,metrics\n" + delimited((s, quoted(v)) for s, v in zip(STEP, VALUES, strict=True)),
    "messages.csv": "time,message\n" + delimited((i, f'"{line}"') for i, line in enumerate(PRINTED)),
}
FILES = TEXTS | {f"{k}.json": x for k, x in DOCUMENTS.items()} | {f"{k}.jsonl": x for k, x in LINES.items()}


@pytest.mark.parametrize("name", FILES)
def test_shapes_of_the_same_rows(write, name):
    assert_read(read_log(write(name, FILES[name])), step=STEP, reward=REWARD, signals={"kl": KL})
