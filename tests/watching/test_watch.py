"""Watching a log: when a look is made, who is told of a finding, how often, and when it ends."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError, OutputError, SettingError
from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.records import Action
from bayes_grpo.watching import watch as watch_module
from bayes_grpo.watching.notify import checked_url, content_for, post
from bayes_grpo.watching.result import Alarm, Memory, Update, Watching
from bayes_grpo.watching.watch import Patience, ended, load_memory, place_of, save_memory, watch
from tests.helpers.cases import collapsing
from tests.helpers.command import call
from tests.helpers.runs import make_run, steps

SWIFT = Watching(forecasts=False)
"""A diagnosis alone."""
ALARM = Alarm(
    finding="dynamical_instability",
    probability=0.93,
    step=60.0,
    rows=60,
    since=Interval(52.0, 50.0, 54.0, 0.9),
    sentence="Dynamical instability.",
    remedies=(Action(kind="change_setting", setting="learning_rate", factor=0.5),),
    name="run\nwith \x1b[31mcolour",
)


def write(log: Path, n: int) -> None:
    """The log as it stands after so many rows: the reward rises, and is lost from row 50 on."""
    rows = ({"step": i, "reward": r} for i, r in enumerate(collapsing(n).reward, 1))
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Writer:
    """Writes the log while the watch waits: the next of some lengths at every pause."""

    def __init__(self, log: Path, *lengths: int) -> None:
        self.log, self.lengths, self.pauses = log, list(lengths), 0

    def __call__(self, seconds: float) -> None:
        time.sleep(seconds)
        self.pauses += 1
        assert self.pauses < 100, "the watch does not end"
        if self.lengths:
            write(self.log, self.lengths.pop(0))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def looks(log, tmp_path):
    """Watches the log with a state of its own."""

    def look(writer, watching: Watching = SWIFT, **options) -> Iterator[Update]:
        options.setdefault("state", tmp_path / "state.json")
        options.setdefault("patience", Patience(interval=0.01, idle=0.05))
        return watch(log, watching, sleep=writer, **options)

    return look


def test_every_growth_is_looked_at(log, looks):
    messages: list[str] = []
    found = list(looks(Writer(log, 5, 5, 9, 20), progress=messages.append))
    assert [x.rows for x in found] == [5, 9, 20]
    assert messages[0] == f"waiting for {log}"
    assert "looking" in messages


def test_one_look_is_one_look(log, looks):
    write(log, 12)
    writer = Writer(log, 20)
    assert [x.rows for x in looks(writer, patience=Patience(once=True))] == [12]
    assert writer.pauses == 0


def test_the_watch_ends_at_the_planned_length(log, looks):
    planned = {"settings": {"total_steps": 20}}
    found = list(looks(Writer(log, 10, 20, 30), read=planned, patience=Patience(interval=0.01)))
    assert [x.rows for x in found] == [10, 20]


def test_steps_from_0_end_one_step_before_their_number():
    reward = 0.02 * np.arange(30.0)
    assert ended(make_run(np.arange(30.0), reward, total_steps=30))
    assert not ended(make_run(np.arange(29.0), reward[:29], total_steps=30))
    assert not ended(make_run(steps(29), reward[:29], total_steps=30))


def test_what_was_never_a_log_is_an_error_at_the_end(log, looks):
    with pytest.raises(LogReadError, match="expected a log, found none"):
        list(looks(Writer(log)))
    log.write_text("No log at all.\nJust prose.\n")
    with pytest.raises(LogReadError, match="found no rewards"):
        list(looks(Writer(log), patience=Patience(once=True)))


def test_what_is_wrong_is_said_before_the_watch(log, tmp_path):
    with pytest.raises(SettingError, match=r"^webhook: expected an address"):
        watch(log, webhook="file:///etc/passwd")
    with pytest.raises(OutputError, match="expected a file to write"):
        watch(log, state=tmp_path)
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SettingError, match="interval: expected seconds above 0"):
            Patience(interval=seconds)
        with pytest.raises(SettingError, match="idle: expected seconds above 0"):
            Patience(idle=seconds)


def test_an_alarm_is_posted_once_even_after_a_restart(log, looks, server):
    url, got, _ = server
    found = list(looks(Writer(log, 45, 76, 78), webhook=url))
    assert [len(x.alarms) for x in found] == [0, 1, 0]
    assert [x.notes for x in found if x.alarms] == [found[0].notes]  # nothing went wrong with the post
    again = list(looks(Writer(log, 80, 85), webhook=url))
    assert [x.alarms for x in again] == [(), (), ()]
    assert again[-1].alarmed == {"dynamical_instability": 76.0}
    assert [(x["finding"], x["step"]) for x in got] == [("dynamical_instability", 76.0)]
    fresh = list(looks(Writer(log), webhook=url, reset_state=True))
    assert [a.finding for x in fresh for a in x.alarms] == ["dynamical_instability"]


def test_the_watch_may_end_with_a_finding(log, looks):
    patience = Patience(interval=0.01, idle=0.05, until_alarm=True)
    found = list(looks(Writer(log, 45, 76, 78, 80), patience=patience))
    assert [x.rows for x in found] == [45, 76]
    again = list(looks(Writer(log, 78), patience=patience))  # told before: it ends with the first look
    assert [(len(x.alarms), list(x.alarmed)) for x in again] == [(0, ["dynamical_instability"])]


def test_a_post_that_fails_is_a_note_and_the_watch_goes_on(log, looks):
    found = list(looks(Writer(log, 76, 78), webhook="http://127.0.0.1:1/secret"))
    assert [x.rows for x in found] == [76, 78]
    (note,) = [note for note in found[0].notes if "failed" in note]
    assert note.startswith("the webhook at 127.0.0.1 failed: ")
    assert "secret" not in note


def test_a_state_that_cannot_be_kept_is_a_note(log, looks, tmp_path):
    place = tmp_path / "gone"
    place.mkdir()

    def write_and_remove(_: float) -> None:
        (place / "state.json").unlink(missing_ok=True)
        place.rmdir() if place.is_dir() else None
        place.write_text("a file where the folder was")
        write(log, 5)

    found = next(looks(write_and_remove, state=place / "state.json"))
    assert any(note.startswith("the state of the watch is not saved: ") for note in found.notes)


@pytest.fixture
def server():
    """A server that keeps what it is sent, and answers as it is told."""
    got: list[dict] = []
    answer = {"code": 200}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if answer["code"] == 0:
                threading.Event().wait(2.0)
                return
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(answer["code"])
            if answer["code"] == 302:
                self.send_header("Location", "/other")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    running = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}/hook?token=secret", got, answer
    running.shutdown()
    running.server_close()


def test_a_webhook_gets_the_finding(server):
    url, got, _ = server
    assert post(url, ALARM) == ""
    assert got[0] == ALARM.to_dict() | {"text": f"{ALARM.name}: {ALARM.sentence}"}
    assert got[0]["since"]["median"] == 52.0


def test_chat_services_get_their_own_form():
    alarm = replace(ALARM, sentence="<@everyone> & x" * 300)
    slack = json.loads(content_for("https://hooks.slack.com/services/T/B/x", alarm))
    assert list(slack) == ["text"]
    assert "&lt;@everyone&gt; &amp; x" in slack["text"]
    assert "<" not in slack["text"]
    discord = json.loads(content_for("https://discord.com/api/webhooks/1/x", alarm))
    assert len(discord["content"]) == 2000
    assert discord["allowed_mentions"] == {"parse": []}  # nobody is called by what stands in a log


@pytest.mark.parametrize(("code", "message"), [(500, "it answered 500"), (302, "it answered 302"), (0, "1 s")])
def test_a_webhook_that_fails_is_a_note(server, code, message):
    url, _, answer = server
    answer["code"] = code
    problem = post(url, ALARM, limit=1.0)
    assert message in problem or "timed out" in problem
    assert "secret" not in problem


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "file:///etc/passwd", "http://", "host/x", "http://host:port/", "", "//x", "mailto:x@host"]
)
def test_addresses_that_nobody_should_be_sent_to(url):
    with pytest.raises(SettingError, match="http://"):
        checked_url(url)


def test_a_broken_state_is_an_empty_one(tmp_path):
    place = tmp_path / "state.json"
    assert load_memory(place) == Memory()
    kept = Memory({"reward_hacking": 12.0}, (1.0, 0.25))
    save_memory(kept, place)
    assert load_memory(place) == kept
    for text in ("", "[]", "{", '{"format": 0}', '{"format": 1}', '{"format": 1, "alarmed": 3, "first": []}'):
        place.write_text(text)
        assert load_memory(place) == Memory()


def test_the_folder_of_states_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(watch_module, "FOLDER", tmp_path / "deep" / "watch")
    place = place_of([tmp_path / "log.jsonl"])
    save_memory(Memory({"reward_hacking": 3.0}), place)
    assert load_memory(place).alarmed == {"reward_hacking": 3.0}


def test_a_log_without_a_reward_is_refused_in_words_of_the_command(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"step": n, "loss": 0.1, "mood": n / 9}) + "\n" for n in range(9)))
    for done in (call("watch", log, "--once", "--state", tmp_path / "state.json"), call("batch", log)):
        assert "--column reward=KEY, if it is among mood" in " ".join((done.out + done.err).split())
        assert "columns=" not in done.out + done.err


def test_one_look_is_one_line(tmp_path):
    write(tmp_path / "log.jsonl", 40)
    done = call("watch", tmp_path / "log.jsonl", "--state", tmp_path / "state.json", "--once", "--horizon", 60)
    assert done.code == 0, done.err
    (line,) = done.out.splitlines()
    assert line.startswith("Step 40, 40 rows. ")
    assert " at step 60, " in line
    assert len(line) < 400
