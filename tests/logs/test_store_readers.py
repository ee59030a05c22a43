"""Stores written byte by byte: rows, settings, several runs, several files, the command line."""

import json
import math
import sqlite3
import threading
from collections.abc import Iterable

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from bayes_grpo.logs.picking import all_readers
from tests.helpers import stores
from tests.helpers.stores import WRITERS
from tests.logs.log_samples import assert_read

STEPS = np.arange(1, 9)
ROWS = [
    (
        int(s),
        {"train/global_step": float(s), "train/reward": 0.125 * s, "train/entropy": math.nan if s == 2 else 0.5}
        | ({"eval/reward": 0.75} if s == 4 else {}),
    )
    for s in STEPS
]
CONFIG = {"num_generations": 16, "adam_beta1": 0.95, "lr_scheduler_type": "constant", "max_steps": 300}
SETTINGS = {"group_size": 16, "momentum": 0.95, "schedule": "constant", "total_steps": 300}
INSERT = "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)"


def flat(reward: float, steps: Iterable[int] = STEPS, key: str = "train/reward") -> list:
    return [(int(s), {key: reward}) for s in steps]


def format_of(store: str) -> str:
    return "mlflow" if store == "mlruns" else store


def assert_whole(run, store: str) -> None:
    entropy = np.where(STEPS == 2, np.nan, 0.5)
    settings = {name: (value, "config") for name, value in SETTINGS.items()}
    assert_read(run, step=STEPS, reward=0.125 * STEPS, evals={4: 0.75}, signals={"entropy": entropy}, settings=settings)
    assert (run.format, run.name) == (format_of(store), "my run")


@pytest.mark.parametrize("store", WRITERS)
def test_a_store_is_read_by_its_file_and_by_any_folder_above(store, tmp_path):
    file = WRITERS[store](tmp_path, ROWS, CONFIG, "my run")
    forced = read_log(file, format=format_of(store))
    if store != "tensorboard":  # an event file does not name its run, its folder does
        assert_whole(forced, store)
    folders = [p for p in file.parents if tmp_path in p.parents]
    assert folders or file.parent == tmp_path
    for folder in folders:
        assert_whole(read_log(folder), store)
    run = read_log(tmp_path, run="my run")
    assert_whole(run, store)
    assert any(note.startswith("read from ") for note in run.notes)
    for name in set(all_readers()) - {format_of(store)}:
        with pytest.raises(LogReadError) as error:
            read_log(file, format=name)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("store", ["trackio", "mlflow", "mlruns", "tensorboard"])
def test_several_runs_are_listed_and_one_is_chosen(store, tmp_path):
    WRITERS[store](tmp_path, ROWS, CONFIG, "alpha one")
    path = WRITERS[store](tmp_path, [(s, {**row, "train/reward": 0.25}) for s, row in ROWS], CONFIG, "alpha two")
    folder = path.parents[store in ("mlruns", "tensorboard")]
    for wanted, words in (
        (None, r"expected one run, found 2: .*alpha one.*alpha two.*choose with run="),
        ("alpha", r"found 2 called 'alpha'.*more of its name or id"),
        ("beta", r"expected a run among .*alpha one.*found 'beta'; correct it"),
    ):
        with pytest.raises(LogReadError, match=words) as error:
            read_log(folder, run=wanted)
        assert "\n" not in str(error.value)
    assert_read(read_log(folder, run="alpha one"), reward=0.125 * STEPS, name="alpha one")
    assert_read(read_log(folder, run="alpha tw"), reward=0.25, name="alpha two")


def test_runs_of_trackio_are_chosen_by_id_and_projects_lie_side_by_side(tmp_path):
    path = stores.write_trackio(tmp_path, ROWS, name="same")
    stores.write_trackio(tmp_path, flat(0.25), name="same")
    with pytest.raises(LogReadError, match=r"same \(0000id\), same \(0001id\)"):
        read_log(path)
    assert_read(read_log(path, run="0001"), reward=0.25)
    path.rename(path.with_name("first.db"))
    stores.write_trackio(tmp_path, ROWS, name="two")
    with pytest.raises(LogReadError, match=r"found 3: same \(0000id\), same \(0001id\), two \(0000id\)"):
        read_log(tmp_path / "trackio")
    assert read_log(tmp_path / "trackio", run="two").name == "two"


def test_a_run_further_down_is_read_and_a_log_of_a_trainer_before_it(tmp_path):
    stores.write_tensorboard(tmp_path / "project", ROWS, name="exp")
    for run in (read_log(tmp_path), read_log(tmp_path, run="project"), read_log(tmp_path / "project")):
        assert_read(run, step=STEPS, format="tensorboard")
    (tmp_path / "metrics.jsonl").write_text("".join(f'{{"step": {s}, "reward": 0.5}}\n' for s in STEPS))
    assert read_log(tmp_path).format == "jsonl"
    assert read_log(tmp_path, run="project").format == "tensorboard"


def test_logs_of_the_tracker_itself_are_no_logs_of_a_training(tmp_path):
    stores.write_wandb(tmp_path, ROWS)
    for name in ("debug.log", "debug-internal.log"):
        (tmp_path / "wandb" / name).write_text("2026-11-22 10:00:00 INFO started\n")
    (tmp_path / "wandb" / "latest-run").symlink_to("offline-run-20261122_154853-abc12345", target_is_directory=True)
    assert read_log(tmp_path / "wandb").format == "wandb"
    assert read_log(tmp_path / "wandb" / "latest-run").format == "wandb"


def test_parts_of_a_resumed_run_of_weights_and_biases_are_one_run(tmp_path):
    first = stores.write_wandb(tmp_path, ROWS[:5], CONFIG, "my run")
    again = stores.write_wandb(tmp_path / "again", ROWS[3:], CONFIG, "my run")
    again.parent.rename(tmp_path / "wandb" / "offline-run-20261123_100000-abc12345")
    run = read_log(first.parents[1])
    assert_whole(run, "wandb")
    assert run.log_hash != read_log(first).log_hash


def test_event_files_of_a_resumed_training_are_one_run(tmp_path):
    path = stores.write_tensorboard(tmp_path, flat(0.1))
    records = stores.event_records(flat(0.5, range(6, 12)))
    stores.write(path.with_name("events.out.tfevents.1795369999.host.2.0"), b"".join(map(stores.tfrecord, records)))
    run = read_log(path.parent)
    assert_read(run, step=range(1, 12), reward=np.where(run.step < 6, np.float32(0.1), 0.5))


@pytest.mark.parametrize("store", ["tensorboard", "mlflow", "mlruns"])
def test_parts_of_a_step_are_averaged_and_a_resume_is_cut_over(store, tmp_path):
    parts = [(s, {"reward": 0.5 * s + part}) for s in range(1, 7) for part in (-0.25, 0.0, 0.25)]
    run = read_log(WRITERS[store](tmp_path / "parts", parts))
    assert_read(run, "3 records each", step=range(1, 7), reward=0.5 * np.arange(1, 7))
    if store == "mlruns":
        return  # its lines are in the order of their times, which this writer takes from the step
    attempts = flat(0.25, range(1, 9), "reward") + flat(0.75, range(5, 8), "reward")
    run = read_log(WRITERS[store](tmp_path / "resumed", attempts))
    assert_read(run, step=range(1, 8), reward=np.where(run.step < 5, 0.25, 0.75))


def test_settings_of_the_plugin_for_hyperparameters(tmp_path):
    path = stores.write_tensorboard(tmp_path, ROWS)
    field = stores.field
    entry = field(1, field(1, "grpo.num_generations_per_prompt") + field(2, field(2, 16.0)))
    entry += field(1, field(1, "grpo.num_prompts_per_step") + field(2, field(2, 64.0)))
    metadata = field(1, field(1, "hparams") + field(2, field(3, entry)))
    value = field(1, field(1, "_hparams_/session_start_info") + field(9, metadata))
    trial = path.parent / "1795362535.2942863" / "events.out.tfevents.1795362535.host"
    stores.write(trial, stores.tfrecord(stores.event(0, value)))
    more = [(s, {"train/probs_ratio": 1.0, "train/reward": 0.5}) for s, _ in ROWS]
    stores.write(path, b"".join(map(stores.tfrecord, stores.event_records(more))))
    assert_read(read_log(path.parent), settings={"group_size": (16, "config"), "prompts_per_step": 64})


def test_tensors_of_one_number_are_scalars(tmp_path):
    path = stores.write_tensorboard(tmp_path, [])
    field, events = stores.field, []
    for s in STEPS:
        packed = field(8, field(1, 1) + field(5, np.float32(0.125 * s).tobytes()))
        raw = field(8, field(1, 2) + field(4, np.float64(0.5).tobytes()))
        events += [stores.event(int(s), field(1, field(1, k) + v)) for k, v in (("reward", packed), ("kl", raw))]
    stores.write(path, b"".join(map(stores.tfrecord, events)))
    assert_read(read_log(path), reward=0.125 * STEPS, signals={"kl": 0.5})


def test_long_records_are_put_together_from_their_blocks(tmp_path):
    text = {"prompts": "x" * 100_000}
    path = stores.write_wandb(tmp_path, [(s, {**row, **text}) for s, row in ROWS], CONFIG, "my run")
    assert path.stat().st_size > 20 * 32_768
    assert_whole(read_log(path), "wandb")


def test_nested_keys_and_later_settings_of_weights_and_biases(tmp_path):
    field = stores.field
    records = stores.wandb_records([], {"num_generations": 4})
    records.append(field(1, 2) + field(18, field(1, field(1, "num_generations") + field(16, "32"))))
    for s in STEPS:
        item = field(2, "critic") + field(2, "score") + field(2, "mean") + field(16, str(0.125 * s))
        records.append(field(2, field(1, item) + field(1, field(1, "_step") + field(16, str(s)))))
    path = stores.write(tmp_path / "run-x.wandb", stores.leveldb(b":W&B\xe1\xbe\x00", records))
    assert_read(read_log(path), reward=0.125 * STEPS, settings={"group_size": 32})


def test_a_database_is_read_while_it_is_written(tmp_path):
    """Rows that only the log of changes holds are there, and the writer is not held up."""
    path = stores.write_trackio(tmp_path, ROWS[:2])
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        for i, (_, row) in enumerate(ROWS[2:], 2):
            writer.execute(INSERT, ("0000id", "t", "run", i, json.dumps(row)))
        assert path.with_name("project.db-wal").stat().st_size > 0
        writer.execute("BEGIN IMMEDIATE")  # an unfinished change
        writer.execute("DELETE FROM metrics")
        before = sorted(p.name for p in path.parent.iterdir())
        assert_read(read_log(path), step=STEPS)
        assert sorted(p.name for p in path.parent.iterdir()) == before
        writer.execute("ROLLBACK")
    finally:
        writer.close()


def test_a_database_is_whole_however_often_a_writer_moves_its_changes(tmp_path):
    path = stores.write_trackio(tmp_path, ROWS)
    stop = threading.Event()

    def write() -> None:
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("PRAGMA journal_mode = WAL")
        step = len(ROWS)
        while not stop.is_set():
            step += 1
            row = json.dumps({"train/global_step": step, "train/reward": 0.125 * step})
            writer.execute(INSERT, ("0000id", "t", "run", step, row))
            if step % 7 == 0:
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            stop.wait(0.003)
        writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        last = 0
        for _ in range(30):
            run = read_log(path)
            assert_read(run, step=np.arange(1, len(run.step) + 1), reward=0.125 * run.step)
            assert len(run.step) >= last
            last = len(run.step)
    finally:
        stop.set()
        thread.join()
    assert last > len(ROWS)


def test_deleted_runs_of_mlflow_are_passed_by(tmp_path):
    path = stores.write_mlflow(tmp_path, ROWS, name="old")
    stores.write_mlflow(tmp_path, ROWS, name="new")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'old'")
    assert read_log(path).name == "new"


def test_lines_of_mlflow_with_more_or_fewer_fields(tmp_path):
    about = stores.write_mlruns(tmp_path, [])
    text = b"1795362558346 0.5 1\n1795362558347 0.25 2 data digest\nprose\n1 2\n1795362558348 0.1"
    stores.write(about.parent / "metrics" / "reward", text)
    notes = ("1 line without time, value and step left out", "the last record is cut: 17 bytes dropped")
    assert_read(read_log(about.parent), *notes, step=[0, 1, 2], reward=[2.0, 0.5, 0.25])


def test_runs_of_mlflow_in_a_repository_that_are_deleted_empty_or_old(tmp_path):
    stores.write_mlruns(tmp_path, [], name="empty")
    gone = stores.write_mlruns(tmp_path, ROWS, name="gone")
    gone.write_text(gone.read_text().replace("active", "deleted"))
    old = stores.write_mlruns(tmp_path, ROWS, CONFIG, name="my run")
    old.write_text(old.read_text().replace("run_id", "run_uuid"))
    (tmp_path / "README.md").write_text("Our training.")
    assert_whole(read_log(tmp_path), "mlruns")
    with pytest.raises(LogReadError, match="expected a file of lines in metrics next to meta"):
        read_log(tmp_path / "mlruns" / "172652193062897763" / "meta.yaml", format="mlflow")
