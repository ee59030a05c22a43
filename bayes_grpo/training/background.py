"""Updates computed beside a trainer, in a process of their own. Nothing here computes or waits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bayes_grpo.common.machine import cores
from bayes_grpo.logs.assembling import Known
from bayes_grpo.training.link import Link
from bayes_grpo.training.one_warning import OneWarning
from bayes_grpo.watching.result import Alarm, Memory, Update, Watching

EVERY = 10.0
"""Seconds between the beginnings of two updates."""
MOST_THREADS = 2
"""Threads of the process where nobody says it; more would gain little."""
AT_ONCE: list[Mapping[str, Any]] = []
"""In the place of rows: somebody waits, so the pause between two updates is over."""
_PATIENCE = 20
"""Rows after which it is told why nothing can be said of a run."""


@dataclass(frozen=True, kw_only=True)
class BackgroundSetup:
    """What the process is told first.

    Attributes:
        known: What is known of the run beside its rows.
        watching: What is asked of it.
        memory: What earlier updates left.
        every: Seconds between the beginnings of two updates.
    """

    known: Known = field(default_factory=Known)
    watching: Watching = field(default_factory=Watching)
    memory: Memory = field(default_factory=Memory)
    every: float = EVERY


class BackgroundAnswer(NamedTuple):
    """What the process says.

    Attributes:
        rows: Rows that it had.
        update: What they say; None where nothing can be said.
        problem: Why.
    """

    rows: int
    update: Update | None
    problem: str


class Background:
    """A run's updates, from a process beside this one. It never raises: what goes wrong is one warning, then silence.

    Attributes:
        setup: What the process was told.
        failed: Why there will be no more updates; "" while there will.
        alarms: All findings so far, those of updates that nobody asked for included.

    Args:
        setup: What to tell the process.
        threads: Threads that it may use; by default half of the processors, at most `MOST_THREADS`.
    """

    def __init__(self, setup: BackgroundSetup, threads: int | None = None) -> None:
        self.setup, self.failed = setup, ""
        self.alarms: tuple[Alarm, ...] = ()
        self._sent = self._answered = 0
        self._update: Update | None = None
        self._link: Link | None = None
        self._warning = OneWarning()
        with self._no_harm():
            self._link = Link(threads or max(1, min(MOST_THREADS, cores() // 2)))
            self._link.send(setup)

    @property
    def pid(self) -> int | None:
        """Number of the process; None where there is none."""
        return None if self._link is None else self._link.pid

    @property
    def running(self) -> bool:
        """Whether there is a process that may still answer."""
        return self._link is not None

    @property
    def current(self) -> bool:
        """Whether the last answer is of all rows."""
        return self._answered == self._sent

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Sends rows; returns at once, however busy the process is."""
        new = list(rows)
        if self._link is None or not new:
            return
        with self._no_harm():
            self._sent += len(new)
            self._link.send(new)
            self._take(self._link.received())

    def latest(self) -> Update | None:
        """The last update that has come; None before the first."""
        if self._link is not None:
            with self._no_harm():
                self._link.flush()
                self._take(self._link.received())
        return self._update

    def wait(self, seconds: float) -> Update | None:
        """Waits for the update of all rows, for at most so many seconds; the last one that has come."""
        if self._link is not None:
            with self._no_harm():
                if not self.current:
                    self._link.send(AT_ONCE)
                for answer in self._link.wait(0.0 if self.current else seconds):
                    self._take([answer])
                    if self.current:
                        break
        return self._update

    def close(self) -> None:
        """Ends the process; nothing is left running. What has come can still be asked for."""
        link, self._link = self._link, None
        if link is not None:
            with self._no_harm():
                link.close()

    def _take(self, answers: list[BackgroundAnswer]) -> None:
        for answer in answers:
            self._answered = answer.rows
            if answer.update is not None:
                self._update = answer.update
                self.alarms += answer.update.alarms
            if answer.problem and answer.rows >= _PATIENCE:
                self._warning.say(f"nothing can be said of the run: {answer.problem}")

    @contextlib.contextmanager
    def _no_harm(self) -> Iterator[None]:
        """A failure ends the process and is one warning."""
        try:
            yield
        except Exception as error:
            self.failed = str(error)
            self._warning.say(f"no more updates: {error}")
            link, self._link = self._link, None
            if link is not None:
                with contextlib.suppress(OSError):
                    link.close()
