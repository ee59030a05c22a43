"""A log that is being written: no row lost or doubled, whatever its writer does."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError, SettingError
from bayes_grpo.logs.run import Run
from bayes_grpo.watching.following import PATIENCE, Following, stamp_of
from tests.helpers import stores, writer
from tests.helpers.paths import not_none
from tests.helpers.selection import few
from tests.helpers.writer import line_of, reward_at


def rows(first: int, last: int, form: str = "jsonl") -> str:
    return "".join(line_of(step, form) for step in range(first, last + 1))


def check_rows(found: Run | None, last: int | None = None) -> None:
    """Every row from the first on, each once and with its own reward; up to the last where it is given."""
    run = not_none(found)
    assert run.step.tolist() == list(range(1, int(run.step[-1]) + 1))
    assert run.reward.tolist() == [reward_at(s) for s in run.step]
    assert np.allclose(run.signals["entropy"], 1.0 + run.step / 1000.0)
    assert (run.window == 1.0).all()
    if last is not None:
        assert run.step[-1] == last


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def test_a_log_need_not_be_there_yet(log):
    follow = Following(log)
    assert follow.poll() is None
    assert follow.run is None
    log.write_text("")
    assert follow.poll() is None
    assert "an empty file" in follow.problem
    append(log, rows(1, 1))
    check_rows(follow.poll(), 1)
    append(log, rows(2, 4))
    check_rows(follow.poll(), 4)
    assert follow.problem == ""


def test_a_folder_that_is_not_there_is_a_wrong_path(tmp_path):
    with pytest.raises(LogReadError, match="found no folder of that name; check the path"):
        Following(tmp_path / "nowhere" / "log.jsonl")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_half_a_line_waits(tmp_path, form):
    """Of a CSV line half may look like a whole one: 12,0.5 of 12,0.53."""
    log = tmp_path / f"log.{form}"
    head = "step,reward,entropy\n" if form == "csv" else ""
    log.write_text(head + rows(1, 11, form))
    follow = Following(log)
    check_rows(follow.poll(), 11)
    line = line_of(12, form)
    for piece in (line[:1], line[1:6], line[6:-1]):
        append(log, piece)
        found = follow.poll()
        if found is not None:
            check_rows(found, 12 if piece == line[6:-1] and form == "jsonl" else 11)
    append(log, "\n" + line_of(13, form))
    check_rows(follow.poll(), 13)


def test_a_last_line_that_never_ends_counts_after_a_while_and_at_the_last_poll(tmp_path):
    log, now = tmp_path / "log.csv", [0.0]
    log.write_text("step,reward,entropy\n" + rows(1, 6, "csv").rstrip("\n"))
    follow, at_its_end = Following(log, clock=lambda: now[0]), Following(log)
    check_rows(follow.poll(), 5)
    now[0] = PATIENCE - 1.0
    assert follow.poll() is None
    now[0] = PATIENCE + 1.0
    check_rows(follow.poll(), 6)
    assert follow.poll() is None
    check_rows(at_its_end.poll(), 5)
    check_rows(at_its_end.poll(last=True), 6)


def test_a_broken_file_leaves_the_run_as_it_was(tmp_path):
    log = tmp_path / "log.json"
    whole = json.dumps([{"step": s, "reward": reward_at(s), "entropy": 1.0 + s / 1000.0} for s in range(1, 9)])
    log.write_text(whole)
    follow = Following(log)
    check_rows(follow.poll(), 8)
    log.write_text(whole[: len(whole) // 2])
    assert follow.poll() is None
    assert follow.problem
    check_rows(follow.run, 8)
    log.write_text(whole[:-1] + "," + json.dumps({"step": 9, "reward": reward_at(9), "entropy": 1.009}) + "]")
    check_rows(follow.poll(), 9)


def test_a_log_that_is_deleted_leaves_what_was_seen_and_one_that_begins_later_is_another(log):
    log.write_text(rows(1, 10))
    follow = Following(log)
    follow.poll()
    log.unlink()
    assert follow.poll() is None
    check_rows(follow.run, 10)
    log.write_text(rows(11, 13))
    assert not_none(follow.poll()).step.tolist() == [11.0, 12.0, 13.0]
    assert follow.notes == ("the log was restarted and ends at step 13",)


def test_a_log_that_is_written_anew_in_place_does_not_shrink_for_a_moment(log):
    """Some trainers write their whole log at every step."""
    log.write_text(rows(1, 30))
    follow = Following(log)
    follow.poll()
    log.write_text(rows(1, 12))
    assert follow.poll() is None
    append(log, rows(13, 31))
    check_rows(follow.poll(), 31)


def test_a_log_that_was_begun_anew_is_a_new_run(log):
    log.write_text(rows(1, 30))
    follow = Following(log)
    follow.poll()
    log.write_text(rows(1, 4))
    assert follow.poll() is None
    check_rows(follow.poll(), 4)
    append(log, rows(5, 6))
    check_rows(follow.poll(), 6)
    assert follow.notes == ("the log was restarted and ends at step 4",)


def test_the_latest_checkpoint_counts(tmp_path):
    def save(step: int) -> None:
        history = [{"step": s, "reward": reward_at(s), "entropy": 1.0 + s / 1000.0} for s in range(1, step + 1)]
        folder = tmp_path / f"tmp-checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(
            json.dumps({"global_step": step, "logging_steps": 1, "log_history": history})
        )
        folder.rename(tmp_path / f"checkpoint-{step}")

    follow = Following(tmp_path)
    assert follow.poll() is None
    for step in (5, 10, 100):
        save(step)
        check_rows(follow.poll(), step)
    assert follow.poll() is None


@pytest.mark.parametrize(("followed", "changed"), [("a", "a/b/c"), ("metrics.db", "metrics.db-wal")])
def test_a_file_within_a_folder_and_the_changes_beside_a_database_change_its_stamp(tmp_path, followed, changed):
    """SQLite appends to a second file; the database itself may stay as it is for long."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "metrics.db").write_text("x")
    before = stamp_of([tmp_path / followed])
    (tmp_path / changed).write_text("y")
    assert stamp_of([tmp_path / followed]) != before


def test_a_store_that_grows_within_its_records_is_followed(tmp_path):
    """A .wandb file cut anywhere, as its writer's buffer leaves it: rows appear one after another, each once."""
    path = stores.write_wandb(tmp_path, logged(20))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    follow, last = Following(path.parents[1]), 0.0
    for size in range(len(whole) // 3, len(whole) + 1, 37):
        path.write_bytes(whole[:size])
        follow.poll()
        if follow.run is not None:
            check_rows(follow.run)
            assert follow.run.step[-1] >= last
            last = follow.run.step[-1]
    path.write_bytes(whole)
    follow.poll()
    check_rows(follow.run, 20)


def test_a_database_whose_writer_is_open_is_followed(tmp_path):
    """Its file stays as it is; what is new stands in the log of changes beside it."""
    path = stores.write_trackio(tmp_path, logged(5))
    follow = Following(path)
    check_rows(follow.poll(), 5)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    for step, row in logged(9)[5:]:
        db.execute(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) "
            "SELECT run_id, timestamp, run_name, step + 1, ? FROM metrics ORDER BY id DESC LIMIT 1",
            (json.dumps(row).encode(),),
        )
        db.commit()
        check_rows(follow.poll(), step)
    db.close()


def logged(n: int) -> list[tuple[int, dict[str, float]]]:
    """Rows as a trainer hands them to a store."""
    return [
        (s, {"train/global_step": s, "train/reward": reward_at(s), "train/entropy": 1.0 + s / 1000.0})
        for s in range(1, n + 1)
    ]


def test_a_wrong_setting_is_said_at_once(log):
    log.write_text(rows(1, 5))
    with pytest.raises(SettingError, match="group_size"):
        Following(log, {"settings": {"group_size": -1}}).poll()


def start(log: Path, first: int, last: int, *options: object) -> subprocess.Popen:
    words = [sys.executable, writer.__file__, str(log), str(first), str(last), *map(str, options)]
    return subprocess.Popen(words)


def followed(follow: Following, process: subprocess.Popen, last: int) -> int:
    """Polls until the last row is there, every snapshot checked; how many there were."""
    seen = 0
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        over = process.poll() is not None
        found = follow.poll()
        if found is not None:
            check_rows(found)
            seen += 1
        if over and follow.run is not None and follow.run.step[-1] == last:
            return seen
        time.sleep(0.01)
    raise AssertionError(f"the writer came to {last}, the follower to {follow.run and follow.run.step[-1]}")


@pytest.mark.parametrize("form", few(["jsonl", "csv"], "jsonl"))
def test_beside_a_real_writer_no_row_is_lost_or_doubled(tmp_path, form):
    log = tmp_path / f"log.{form}"
    follow = Following(log)
    process = start(log, 1, 150, "--format", form)
    try:
        assert followed(follow, process, 150) > 5
    finally:
        process.kill()
    check_rows(follow.run, 150)


def test_a_writer_that_is_killed_and_resumes_loses_no_row(log):
    """Killed within a line, again and again; it resumes at the step after the last whole one."""
    follow, first = Following(log), 1
    for _ in range(4):
        process = start(log, first, 400)
        deadline = time.monotonic() + 30.0
        wanted = first + 20
        while (follow.run is None or follow.run.step[-1] < wanted) and time.monotonic() < deadline:
            if (found := follow.poll()) is not None:
                check_rows(found)
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        text = log.read_bytes()
        if not text.endswith(b"\n"):
            append(log, "\n")  # a trainer that resumes begins a line of its own
        first = last_whole(text) + 1
    process = start(log, first, first + 30)
    followed(follow, process, first + 30)
    check_rows(follow.run, first + 30)


def last_whole(text: bytes) -> int:
    """The last step whose line is whole, of text that may hold cut ones."""
    for line in reversed(text.splitlines()):
        try:
            return json.loads(line)["step"]
        except ValueError:
            continue
    raise AssertionError("no whole line")
