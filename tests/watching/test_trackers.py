"""Alarms as alerts of W&B and Trackio, by their real clients and without a network."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bayes_grpo.common.errors import MissingExtraError, SettingError
from bayes_grpo.watching import notify
from bayes_grpo.watching.notify import RetryQueue, tracker_alert
from tests.watching.test_watch import ALARM, write

_WATCH = "import sys; from bayes_grpo.cli.entry import main; sys.argv = ['bayes-grpo', *sys.argv[1:]]; main()"


def watched(folder: Path, tracker: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A watch of a log that has fallen, in a process of its own."""
    write(folder / "log.jsonl", 90)
    words = ("watch", folder / "log.jsonl", "--once", "--alert", tracker, "--state", folder / "state.json")
    return subprocess.run(
        [sys.executable, "-c", _WATCH, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | environment,
        cwd=folder,
    )


@pytest.mark.thorough
def test_wandb_gets_the_alert_by_its_own_client(tmp_path):
    pytest.importorskip("wandb")
    done = watched(tmp_path, "wandb", WANDB_MODE="offline", WANDB_DIR=str(tmp_path), WANDB_SILENT="true")
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "wandb").rglob("run-*.wandb")
    content = file.read_bytes()
    assert b"log: dynamical instability" in content
    assert b"Do now" in content
    assert "failed" not in done.stderr


@pytest.mark.thorough
def test_trackio_gets_the_alert_by_its_own_client(tmp_path):
    pytest.importorskip("trackio", reason="trackio is not installed (group stores)")
    done = watched(tmp_path, "trackio", TRACKIO_DIR=str(tmp_path / "trackio"))
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "trackio").glob("bayes-grpo*.db")
    with sqlite3.connect(file) as found:
        rows = found.execute("select title, level from alerts").fetchall()
    assert rows == [("log: dynamical instability", "error")]


def test_a_tracker_without_its_client_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(MissingExtraError, match=r"alert trackio needs trackio.*install bayes-grpo\[trackio\]"):
        tracker_alert("trackio")
    with pytest.raises(SettingError, match=r"^alert: expected wandb or trackio, found 'neptune'"):
        RetryQueue(None, alert="neptune")


def test_an_alert_that_fails_is_tried_again(monkeypatch):
    def fails(client, alarm):
        raise ConnectionError("no route")

    monkeypatch.setitem(notify.TRACKERS, "json", fails)  # any module serves as a client
    now = [0.0]
    queue = RetryQueue(None, lambda: now[0], alert="json")
    queue.add([ALARM])
    assert queue.send() == ["the alert of json failed: ConnectionError: no route"]
    assert queue.waiting == 1
