"""Many tasks in threads of one process, whose calls of one program run as a batch: small logs on an accelerator.

A task is written as if it were alone. Where it calls a program (`bayes_grpo.common.programs.call`) it waits until all
the others wait too or are done; then the call that most of them wait for, of one program with arguments of the same
shapes, is made for all of these as one batch. The batch is filled up to one width, so that a program compiles once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np

from bayes_grpo.common.programs import call_here, calls_go_to
from bayes_grpo.common.tasks import ParallelTask, TaskOutcome, attempt

WIDTH = 64
"""Tasks under way at once."""


class _Call(NamedTuple):
    """A call that waits: its program and shapes, its arguments, and where its result goes."""

    key: tuple[Any, ...]
    arguments: tuple[Any, ...]
    result: Future[Any]


class Meeting:
    """Where threads wait for each other's calls.

    Args:
        width: Threads that take part from the beginning, each of which has to `leave`; calls of a batch.
    """

    def __init__(self, width: int) -> None:
        self._width, self._present = width, width
        self._waiting: list[_Call] = []
        self._lock = Lock()
        self._closed = False

    def call(self, make: Any, options: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """What a program returns, NumPy arrays, once it has been run for this call and others.

        Raises:
            CancelledError: The meeting was closed.
        """
        leaves, treedef = jax.tree.flatten(arguments)
        shapes = tuple((np.shape(x), np.asarray(x).dtype) for x in leaves)
        mine = _Call((make, options, treedef, shapes), arguments, Future())
        with self._lock:
            if self._closed:
                raise CancelledError
            self._waiting.append(mine)
            due = self._due()
        self._run(due)
        return mine.result.result()

    def leave(self) -> None:
        """A thread has no more to do: nobody waits for it."""
        with self._lock:
            self._present -= 1
            due = self._due()
        self._run(due)

    def close(self) -> None:
        """Ends every task at its next call."""
        with self._lock:
            self._closed = True
            left, self._waiting = self._waiting, []
        for x in left:
            x.result.cancel()

    def _due(self) -> list[_Call]:
        """The largest group of calls of one kind, once nobody else can add to it."""
        if not self._waiting or len(self._waiting) < self._present:
            return []
        kinds: dict[tuple[Any, ...], list[_Call]] = {}
        for x in self._waiting:
            kinds.setdefault(x.key, []).append(x)
        largest = max(kinds.values(), key=len)
        self._waiting = [x for x in self._waiting if x.key != largest[0].key]
        return largest

    def _run(self, calls: list[_Call]) -> None:
        """Makes calls of one kind as one, in the thread that came last."""
        if not calls:
            return
        make, options, *_ = calls[0].key
        try:
            filled = [x.arguments for x in calls] + [calls[0].arguments] * (self._width - len(calls))
            found = call_here(side_by_side, (make, *options), jax.tree.map(lambda *x: np.stack(x), *filled))
        except BaseException as error:
            for x in calls:
                x.result.set_exception(error)
            return
        for i, x in enumerate(calls):
            x.result.set_result(jax.tree.map(lambda a, i=i: a[i], found))


def side_by_side(make: Callable[..., Any], *options: Any) -> Any:
    """A program for as many calls as its arguments' leading axis is long."""
    return jax.vmap(make(*options))


def together(task: ParallelTask, arguments: Sequence[Any], width: int = WIDTH) -> Generator[TaskOutcome]:
    """Does a task with every argument, many at once, with one program run for the calls of many.

    Args:
        task: The task; all that it shares with others has to bear several threads.
        arguments: Its arguments; those that need the same programs stand side by side.
        width: Tasks under way at once.

    Yields:
        The outcomes, in the order in which they are done.
    """
    width = min(width, len(arguments))
    if not width:
        return
    meeting, done, todo = Meeting(width), SimpleQueue[TaskOutcome](), SimpleQueue[tuple[int, Any] | None]()
    for item in [*enumerate(arguments), *[None] * width]:
        todo.put(item)

    def work() -> None:
        with _attending(meeting):
            while (item := todo.get()) is not None:
                place, argument = item
                done.put(attempt(task, argument, place))

    pool = ThreadPoolExecutor(max_workers=width)
    with warnings.catch_warnings():  # tasks that do the same in several threads would leave another's filters behind
        try:
            for _ in range(width):
                pool.submit(work)
            for _ in arguments:
                yield done.get()
        finally:
            meeting.close()
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _attending(meeting: Meeting) -> Generator[None]:
    with calls_go_to(meeting.call):
        try:
            yield
        finally:
            meeting.leave()
