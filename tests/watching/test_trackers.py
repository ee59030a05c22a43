"""Alarms that are sent again until they arrive: to a webhook, and to W&B and Trackio by their real clients."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bayes_grpo.common.errors import MissingExtraError, SettingError
from bayes_grpo.watching import notify
from bayes_grpo.watching.notify import FIRST_RETRY, LONGEST_PAUSE, TRIES, RetryQueue, tracker_alert
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


@pytest.fixture
def tried(monkeypatch):
    """Calls of a webhook that does not answer before the third."""
    calls: list[object] = []

    def post(url, alarm) -> str:
        calls.append(alarm)
        return "it answered 500" if len(calls) < 3 else ""

    monkeypatch.setattr(notify, "post", post)
    return calls


def test_a_webhook_that_is_down_gets_the_alarm_later_and_once(tried):
    now = [0.0]
    queue = RetryQueue("https://host/hook", lambda: now[0])
    queue.add([ALARM])
    assert queue.send() == ["it answered 500"]
    assert queue.waiting == 1
    assert queue.send() == []  # not due yet
    now[0] = FIRST_RETRY
    assert queue.send() == ["it answered 500"]
    now[0] = 3 * FIRST_RETRY
    assert queue.send() == []
    assert (queue.waiting, tried) == (0, [ALARM] * 3)
    nowhere = RetryQueue(None)
    nowhere.add([ALARM])
    assert nowhere.waiting == 0


def test_no_webhook_is_tried_for_ever(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(notify, "post", lambda url, alarm: calls.append(alarm) or "it answered 500")
    queue = RetryQueue("https://host/hook", lambda: now[0])
    queue.add([ALARM])
    for _ in range(50):
        queue.send()
        now[0] += LONGEST_PAUSE
    assert (len(calls), queue.waiting) == (TRIES, 0)
