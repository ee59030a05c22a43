"""The callback in TRL's own trainer: a small policy with random weights, trained on the processor."""

import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("trl", reason="the dependency group trl is not installed")

import torch  # pyright: ignore[reportMissingImports]
from transformers import TrainerCallback  # pyright: ignore[reportMissingImports]

from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.settings import Provenance
from bayes_grpo.trl import BayesGRPOCallback
from benchmarks.speed.peers.trl_tiny import trainer
from tests.training.test_background import gone

STEPS, SAVED, LONGEST = 40, 20, 1500
LONG = 120.0
"""Seconds that the end of a training waits for its last update, on a machine that does other work."""


class Reporter(TrainerCallback):
    """In the place of W&B or TensorBoard: it keeps what it sees, and comes before the callbacks of a user."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        self.seen.append(dict(logs or {}))


class Trained(NamedTuple):
    """A training that has ended."""

    folder: Path
    rows: list[dict[str, Any]]
    seen: list[dict[str, Any]]
    pids: list[int | None]


class Looks(BayesGRPOCallback):
    """Our callback, with the number of its process kept."""

    pids: list[int | None]

    def on_train_begin(self, *args: Any, **more: Any) -> None:
        super().on_train_begin(*args, **more)
        self.pids = [*getattr(self, "pids", []), self.pid]


def train(folder: Path, steps: int = STEPS, seconds: float = 0.0, resume: str | None = None, **options: Any) -> Trained:
    torch.set_num_threads(1)
    run = trainer(folder, steps, work=lambda: time.sleep(seconds), save_strategy="steps", save_steps=SAVED)
    reporter, ours = Reporter(), Looks(**{"every": 0.0, "finish": LONG, "draws": 200} | options)
    run.add_callback(reporter)
    ours.attach(run)
    with warnings.catch_warnings(action="ignore"):
        run.train(resume_from_checkpoint=resume)
    return Trained(folder, run.state.log_history, reporter.seen, ours.pids)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Trained:
    return train(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Trained:
    # Long enough for the background process to make an update, however busy the machine is.
    folder = tmp_path_factory.mktemp("stopped")
    return train(folder, LONGEST, 0.1, stop=lambda update: update.step >= 2, finish=0.0, forecasts=False)


def test_the_log_has_every_row_and_our_last_update_is_of_all_of_them(whole: Trained):
    steps = [row["step"] for row in whole.rows if "reward" in row]
    assert steps == list(range(1, STEPS + 1))
    ours = {key: value for key, value in whole.rows[-1].items() if key.startswith("bayes_grpo/")}
    assert ours["bayes_grpo/rows"] == STEPS
    assert sum(ours[key] for key in ours if key.startswith("bayes_grpo/p/")) == pytest.approx(1)
    assert f"Step {STEPS}, {STEPS} rows." in ours["bayes_grpo/sentence"]


def test_what_we_write_is_seen_by_callbacks_that_report(whole: Trained):
    seen = whole.seen[-1] | {"step": STEPS, "total_flos": 0.0}  # which the callback that prints takes out
    assert seen == whole.rows[-1]
    assert "bayes_grpo/p/healthy" in whole.seen[-1]


def test_the_checkpoint_reads_as_the_run_that_the_process_beside_saw(whole: Trained):
    run = read_log(whole.folder)
    assert run.step.tolist() == list(range(1, STEPS + 1))
    assert all("bayes_grpo" not in key for key in run.keys.values())
    settings = run.settings
    assert (settings.group_size.value, settings.prompts_per_step.value) == (8, 8)
    assert settings.group_size.provenance is Provenance.CONFIG


def test_nothing_is_left_running(whole: Trained, stopped: Trained):
    pids = [pid for trained in (whole, stopped) for pid in trained.pids]
    assert len(pids) == 2
    assert all(pid is not None and gone(pid) for pid in pids)


def test_a_training_that_the_callback_stops_has_saved_where_it_stopped(stopped: Trained):
    last = stopped.rows[-1]["step"]
    assert last < LONGEST
    state = json.loads((stopped.folder / f"checkpoint-{last}" / "trainer_state.json").read_text())
    assert state["global_step"] == last
    assert [row["step"] for row in state["log_history"]] == list(range(1, last + 1))
    assert "train_runtime" in stopped.rows[-1]


def test_a_training_that_is_resumed_goes_on_with_its_rows(whole: Trained, tmp_path: Path):
    resumed = train(tmp_path, resume=str(whole.folder / f"checkpoint-{SAVED}"))
    assert [row["step"] for row in resumed.rows if "reward" in row] == list(range(1, STEPS + 1))
    assert resumed.rows[:SAVED] == whole.rows[:SAVED]
    assert resumed.rows[-1]["bayes_grpo/rows"] == STEPS
