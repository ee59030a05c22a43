"""Results back in a tracker, by its own client and offline."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bayes_grpo import Run, read_log
from bayes_grpo.common.errors import MissingExtraError, OutputError, SettingError
from bayes_grpo.report import trackers
from bayes_grpo.report.trackers import check_tracker, log_result
from tests.helpers.runs import make_run, steps

RESULT = {
    "now": {"median": 0.5, "low": 0.4},
    "p_gain": 0.87,
    "until": float("inf"),
    "name": "x",
    "rows": [1, 2],
    "ok": True,
}
NUMBERS = {"now/median": 0.5, "now/low": 0.4, "p_gain": 0.87, "ok": 1.0}


def run_at(source: object) -> Run:
    return replace(make_run(steps(40), np.linspace(0.1, 0.6, 40), name="a run"), source=str(source))


def test_tensorboard_shows_the_result_beside_the_run(tmp_path: Path):
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(1, 21):
            writer.add_scalar("train/reward", 0.01 * step, step)
    run = read_log(tmp_path)
    where = log_result("tensorboard", run, "forecast", RESULT, "It rises.")
    assert where == str(tmp_path / "bayes_grpo")
    (events,) = Path(where).iterdir()
    content = events.read_bytes()
    for name in NUMBERS:
        assert f"bayes_grpo/forecast/{name}".encode() in content
    assert b"It rises." in content
    assert b"until" not in content  # not finite
    assert len(read_log(tmp_path).reward) == 20  # the run itself is read as before


@pytest.mark.thorough
def test_wandb_gets_the_result_in_the_summary_of_the_run_that_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.chdir(tmp_path)
    run = wandb.init(project="p", id="first1", settings=wandb.Settings(console="off"))
    for step in range(1, 21):
        run.log({"train/reward": 0.01 * step})
    run.finish()
    assert written(tmp_path, b"train/reward")
    (log,) = tmp_path.glob("wandb/offline-run-*/run-first1.wandb")
    time.sleep(1.1)  # folders are named by the second
    assert "run first1" in log_result("wandb", run_at(log), "forecast", RESULT, "It rises.")
    assert written(tmp_path, b"bayes_grpo/forecast/p_gain")
    assert written(tmp_path, b"It rises.")
    assert len(list(tmp_path.glob("wandb/offline-run-*/run-first1.wandb"))) == 2  # one run to who syncs both


def written(folder: Path, text: bytes) -> bool:
    """Whether a text comes to stand in a store: W&B's own process writes on after the run has finished."""
    for _ in range(100):
        if any(text in path.read_bytes() for path in folder.glob("wandb/offline-run-*/*.wandb")):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow comes with the group stores")
def test_mlflow_gets_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import mlflow  # pyright: ignore[reportMissingImports]

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    where = log_result("mlflow", run_at("log.csv"), "fit", RESULT, "It rises.")
    found = mlflow.get_run(where.split()[-1]).data
    assert found.metrics == {f"bayes_grpo/fit/{k}": v for k, v in NUMBERS.items()}
    assert found.tags["bayes_grpo.fit.headline"] == "It rises."


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("trackio") is None, reason="trackio comes with the group stores")
def test_trackio_gets_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    assert log_result("trackio", run_at("log.csv"), "fit", RESULT, "It rises.") == "run a run of project bayes_grpo"
    assert list(tmp_path.glob("bayes_grpo*"))


@pytest.mark.parametrize(
    ("source", "groups"),
    [
        ("wandb://me/maths/abc123", ("me", "maths", "abc123")),
        ("wandb:/maths/abc123", (None, "maths", "abc123")),
        ("wandb/run-20260101_000000-abc123/run-abc123.wandb", None),
    ],
)
def test_the_run_on_wandb_is_known_by_its_address(source: str, groups: tuple[str | None, ...] | None):
    found = trackers._WANDB_ADDRESS.match(source)
    assert (found and found.groups()) == groups
    if not groups:
        place = trackers._WANDB_RUN.search(source)
        assert place is not None
        assert place[1] == "abc123"


def test_what_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SettingError, match="--log-to: expected wandb, trackio, tensorboard, mlflow, found 'neptune'"):
        check_tracker("neptune")
    monkeypatch.setattr(trackers, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"install bayes-grpo\[mlflow\]"):
        check_tracker("mlflow")
    monkeypatch.undo()
    (tmp_path / "bayes_grpo").write_text("in the way")
    with pytest.raises(OutputError, match="--log-to tensorboard: expected its client to take the result"):
        log_result("tensorboard", run_at(tmp_path / "log.csv"), "fit", RESULT, "It rises.")
    assert os.path.isfile(tmp_path / "bayes_grpo")
