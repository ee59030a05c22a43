"""Rows that people hold: the same run as from a file, whatever they are held in."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayes_grpo as bg
from bayes_grpo.common.errors import LogReadError, MissingExtraError
from bayes_grpo.watching.result import Watching
from bayes_grpo.watching.watch import update_of
from tests.helpers.command import call
from tests.helpers.runs import rising_run
from tests.logs.log_samples import assert_read

ROWS = [
    {
        "step": 10 * i,
        "reward": 0.2 + 0.01 * i,
        "reward_std": 0.3,
        "learning_rate": 1e-6,
        "completions/mean_length": 90.0,
    }
    for i in range(1, 9)
]
EVALS = [{"step": s, "eval_reward": r, "eval_runtime": 3.0} for s, r in ((40, 0.5), (80, 0.6))]
HISTORY = [*ROWS[:4], EVALS[0], *ROWS[4:], EVALS[1], {"step": 80, "train_runtime": 9.0, "train_loss": 0.1}]
SAME = ("step", "reward", "window", "eval_step", "eval_reward")
FRAME = pd.DataFrame(HISTORY)


class PolarsLike:
    """A frame with what Polars offers and this project uses; Polars is no dependency."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.columns = list(frame.columns)
        self._frame = frame

    def get_columns(self):
        return [SimpleNamespace(name=k, to_list=self._frame[k].tolist) for k in self.columns]


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    path = tmp_path_factory.mktemp("held") / "metrics.jsonl"
    path.write_text("\n".join(map(json.dumps, HISTORY)))
    return bg.read_log(path)


@pytest.mark.parametrize(
    "held",
    [
        HISTORY,
        tuple(HISTORY),
        FRAME,
        FRAME.set_index("step"),
        FRAME.convert_dtypes(),
        PolarsLike(FRAME),
        FRAME.to_dict("list"),
        {"log_history": HISTORY},
        SimpleNamespace(log_history=HISTORY, max_steps=0, logging_steps=10),
        SimpleNamespace(state=SimpleNamespace(log_history=HISTORY)),
    ],
    ids=["records", "tuple", "pandas", "index", "nullable", "polars", "columns", "state", "State", "trainer"],
)
def test_the_same_run_whatever_it_is_held_in(held, read):
    run = bg.read_log(held, settings={"group_size": 4}, run_name="mine")
    for name in SAME:
        np.testing.assert_array_equal(getattr(run, name), getattr(read, name), name)
    assert dict(run.keys) == dict(read.keys)
    assert run.signals.keys() == read.signals.keys()
    assert (run.name, run.format, run.settings.group_size.value) == ("mine", "memory", 4)
    assert str(run.settings.group_size.provenance) == "user"


def test_a_state_tells_the_plan_and_different_rows_have_different_hashes():
    run = bg.read_log(SimpleNamespace(log_history=HISTORY, max_steps=200, logging_steps=10))
    assert_read(run, settings={"total_steps": 200, "logging_window": 10}, name="run")
    assert run.log_hash == bg.read_log(HISTORY).log_hash != bg.read_log(HISTORY[1:]).log_hash


def test_kinds_and_structs_of_a_frame():
    rows = [{"step": i, "split": "eval" if i % 2 else "train", "reward": 0.1 * i} for i in range(1, 11)]
    run = bg.read_log(pd.DataFrame(rows))
    assert_read(run, evals={i: 0.1 * i for i in range(1, 11, 2)})
    np.testing.assert_array_equal(run.step[np.isfinite(run.reward)], [2, 4, 6, 8, 10])
    structs = pd.DataFrame({"step": [1, 2, 3], "metrics": [{"reward": 0.1}, {"reward": 0.2}, None]})
    np.testing.assert_array_equal(bg.read_log(structs).reward[:2], [0.1, 0.2])


def test_all_that_take_a_run_take_what_makes_one(tmp_path):
    run = rising_run(24)
    frame = pd.DataFrame({"step": run.step, "reward": run.reward})
    path = tmp_path / "run.csv"
    frame.to_csv(path, index=False)
    assert len(bg.read_log(frame).step) == len(bg.read_log(path).step) == 24
    assert len(bg.rows_of(frame).y) == 24
    assert bg.diagnose(frame).about.rows == bg.diagnose(path).about.rows == 24
    assert len(bg.plot_run(frame).axes) == 1
    assert update_of(frame, Watching(forecasts=False))[0].rows == 24


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([], "found an empty list"),
        (7, "expected the path of a log, several, or rows of metrics, found int"),
        ([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}], "list: expected a train reward, found step, loss"),
        (
            pd.DataFrame({"reward": [np.nan]}),
            "pandas.DataFrame: expected a train reward, found reward without",
        ),
        (SimpleNamespace(columns=["a"]), "expected a data frame, columns or records"),
        ([{"a": 1}, 3], "expected a train reward"),
    ],
)
def test_what_is_no_run_is_refused(held, message):
    with pytest.raises(LogReadError, match=message):
        bg.read_log(held)


class FakeClient:
    """What of W&B's client is used: `Api().run(path)` with `scan_history`, `config` and `name`."""

    def __init__(self, timeout: int) -> None:
        assert timeout > 0

    def run(self, path: str):
        if path != "me/proj/abc123":
            raise ValueError(f"could not find run <{path}>")
        rows = [{"_step": i, "train/global_step": r["step"], "train/reward": r["reward"]} for i, r in enumerate(ROWS)]
        config = {"num_generations": 16, "_wandb": {"cli": 1}, "per_device_train_batch_size": 8}
        return SimpleNamespace(scan_history=lambda: iter(rows), config=config, name="sunny-7")


@pytest.mark.parametrize("address", ["wandb://me/proj/abc123", "wandb://me/proj/runs/abc123"])
def test_a_run_of_a_server_by_the_users_own_client(address, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=FakeClient))
    run = bg.read_log(address)
    assert_read(run, step=[r["step"] for r in ROWS], settings={"group_size": 16}, name="sunny-7", format="wandb_client")
    assert json.loads(call("inspect", address, "--json").out)["name"] == "sunny-7"
    assert_read(bg.read_log(FakeClient(1).run("me/proj/abc123")), reward=run.reward, name="sunny-7")


def test_a_run_that_the_client_does_not_get(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=FakeClient))
    with pytest.raises(LogReadError, match=r"wandb://me/proj/no: .* could not find run .* check the path and log in"):
        bg.read_log("wandb://me/proj/no")
    with pytest.raises(LogReadError, match="expected wandb://entity/project/run, found 1 part"):
        bg.read_log("wandb://me")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match="install the package wandb"):
        bg.read_log("wandb://me/proj/abc123")
