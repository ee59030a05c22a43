"""Several trainings in one file: where each begins, which one is read, which are no trainings of their own."""

import json
import warnings
from contextlib import suppress

import numpy as np
import pytest

from bayes_grpo.common.errors import BayesGrpoError, LogReadError
from bayes_grpo.logs import read_log
from bayes_grpo.views.logs import log_document
from tests.helpers.command import call
from tests.logs.log_samples import assert_read

CLOSING = {"train_runtime": 300.0, "train_steps_per_second": 0.1, "train_loss": 0.01, "epoch": 1.0}


def training(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {"loss": round(rng.normal(0, 0.1), 4), "reward": round(rng.uniform(), 4), "epoch": round((i + 1) / n, 2)}
        for i in range(n)
    ]


def supervised(n):
    return [{"loss": 2.0 - 0.1 * i, "grad_norm": 1.0, "epoch": round((i + 1) / n, 2)} for i in range(n)]


def printed(*rows):
    return "\n".join(map(str, rows)) + "\n"


def names(run):
    return [(x.name, x.rows, x.taken) for x in run.trainings]


def rewards(rows):
    return [row["reward"] for row in rows]


def test_a_supervised_phase_before_is_left_out_with_a_note(write):
    grpo = training(40)
    path = write("run.log", printed(*supervised(15), CLOSING, *grpo, CLOSING))
    run = read_log(path)
    assert_read(run, step=range(1, 41), reward=rewards(grpo))
    assert names(run) == [("training 1", 15, False), ("training 2", 40, True)]
    assert run.notes[0].startswith("training 2 of 2 in the log is read, the only one with rewards; --run 'training 1'")
    assert "left out: training 1 (15 rows, steps 1 to 15, no reward)" in run.notes[0]
    with pytest.raises(LogReadError, match="expected a train reward"):
        read_log(path, run="training 1")
    assert json.loads(json.dumps(run.to_dict()))["trainings"][0] == {
        "name": "training 1", "rows": 15, "first_step": 1.0, "last_step": 15.0, "rewards": 0, "taken": False,
    }  # fmt: skip
    page = log_document(run)
    assert "2 trainings: training 2 is read" in page.why
    assert any(s.title == "Trainings in the file" and len(s.tables[0].rows) == 2 for s in page.sections)


@pytest.mark.parametrize("closing", [(), (CLOSING,)])
def test_five_trainings_are_five_runs(write, closing):
    parts = [training(30, seed) for seed in range(5)]
    path = write("all.txt", printed(*(row for part in parts for row in (*part, *closing))))
    assert_read(read_log(path), "the last with rewards; --run 'training 1' takes another", reward=rewards(parts[4]))
    for i, part in enumerate(parts, 1):
        assert_read(read_log(path, run=f"training {i}"), reward=rewards(part))
    with pytest.raises(LogReadError, match=r"run: .*expected a run among training 1, .*found 'training 6'; correct it"):
        read_log(path, run="training 6")
    with pytest.raises(LogReadError, match=r"expected one run, found 5 called 'tra'"):
        read_log(path, run="tra")


def test_the_command_line_takes_any(write):
    path = write("run.log", printed(*training(20), CLOSING, *training(30, 1), CLOSING))
    shown = call("inspect", path, "--run", "training 1", "--details").out
    assert "20 rows" in shown
    assert "Trainings in the file" in shown
    diagnosed = call("diagnose", path, "--run", "training 1", "--details").out
    assert "--run 'training 2' takes another" in " ".join(diagnosed.split())


def test_numbers_near_the_largest_give_no_warning():
    rng = np.random.default_rng(0)
    huge = [1e308, -1e308, 1e16, 3.0, 2.0, 0.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(60):
            rows = [
                {k: float(rng.choice([*huge, *[i] * 40])) for k in ("step", "epoch", "grpo_step", "reward")}
                | {"loss": float(rng.choice([0.1, 1e308, -1e308]))}
                | ({"train_runtime": 3.0} if rng.random() < 0.1 else {})
                for i in range(20)
            ]
            with suppress(BayesGrpoError):
                read_log(rows)
