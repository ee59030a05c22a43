"""The life of the process beside a trainer: rows in, updates out, until the pipe closes.

While it computes rows go on coming, and the next update is of all that came: only the latest state matters. A thread
that does nothing else empties the pipe, and ends the process as soon as the trainer is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from typing import Any

from bayes_grpo.common.text import plain
from bayes_grpo.training.background import AT_ONCE, BackgroundAnswer, BackgroundSetup
from bayes_grpo.training.link import framed, messages_in

_NICENESS = 19
"""Priority of the process: the lowest, so that a trainer that computes on the same processor goes first."""
_LOOK = 1.0
"""Seconds between two looks at whether the parent is still there."""
_CHUNK = 65_536


def serve(parent: int) -> None:
    """Answers rows with updates until standard input is closed; does not return.

    Args:
        parent: Number of the trainer's process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to answer
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    inbox, replies = Inbox(sys.stdin.fileno(), parent), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no reply
    warnings.simplefilter("ignore")
    try:
        _answer(inbox, replies)
    except OSError:  # the trainer is gone
        os._exit(0)


def _answer(inbox: Inbox, replies: int) -> None:
    setup: BackgroundSetup = inbox.take(1)[0]
    from bayes_grpo.logs.assembling import run_of
    from bayes_grpo.watching.update import update_of

    rows: list[Mapping[str, Any]] = []
    memory = setup.memory
    while True:
        if not (new := [row for message in inbox.take() for row in message]):
            continue
        rows, begun = rows + new, time.monotonic()
        try:
            update, memory = update_of(run_of(rows, setup.known), setup.watching, memory)
            _write(replies, BackgroundAnswer(len(rows), update, ""))
        except Exception as error:  # whatever it is, the next row may be better
            _write(replies, BackgroundAnswer(len(rows), None, plain(f"{type(error).__name__}: {error}", 500)))
        inbox.rest(setup.every - (time.monotonic() - begun))


class Inbox:
    """What comes through a pipe, read by a thread of its own; the process ends with the pipe or with its parent.

    Args:
        pipe: Number of the pipe.
        parent: Number of the parent's process.
    """

    def __init__(self, pipe: int, parent: int) -> None:
        self._pipe, self._parent = pipe, parent
        self._messages: list[Any] = []
        self._come = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def take(self, most: int | None = None) -> list[Any]:
        """Messages that have come and were not taken, in their order: at least one, all by default."""
        with self._come:
            self._come.wait_for(lambda: self._messages)
            taken, self._messages = self._messages[:most], self._messages[len(self._messages[:most]) :]
        return taken

    def rest(self, seconds: float) -> None:
        """Waits for so many seconds, or until somebody asks for an update at once."""
        with self._come:
            self._come.wait_for(lambda: AT_ONCE in self._messages, max(0.0, seconds))

    def _read(self) -> None:
        data = bytearray()
        while chunk := self._chunk():
            data += chunk
            if messages := list(messages_in(data)):
                with self._come:
                    self._messages += messages
                    self._come.notify()
        os._exit(0)  # the other thread may be inside XLA

    def _chunk(self) -> bytes:
        """What comes next; nothing where the pipe is closed or the parent has ended."""
        try:
            # A fork of the trainer, such as a loader of its data, may keep the pipe open longer than the trainer lives.
            while os.name == "posix" and not select.select([self._pipe], [], [], _LOOK)[0]:
                if os.getppid() != self._parent:
                    return b""
            return os.read(self._pipe, _CHUNK)
        except OSError:
            return b""


def _write(pipe: int, message: Any) -> None:
    data = framed(message)
    while data:
        data = data[os.write(pipe, data) :]
