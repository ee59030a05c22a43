"""Tasks in worker processes that may die: a supervisor of spawned processes, one pipe each.

Executors of the standard library and of loky share a queue among their workers and break as a whole when one is killed.
Here nothing is shared: a worker that dies takes its own task with it, which is tried once more, and another process
takes its place. Workers are also replaced before they have grown large.

Processes are spawned, never forked: JAX has threads, and a fork copies locks that nobody will open again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoWarning, WorkerError
from bayes_grpo.common.machine import cores, resident, threads
from bayes_grpo.common.memory import lighten
from bayes_grpo.common.tasks import ParallelTask, TaskOutcome, attempt_away, portable

TRIES = 2
"""Times a task is begun before the death of its process is taken for its own doing."""
_STARTS = 3
"""Processes in a row that may die before they are ready."""
_READY = "ready"


class Limits(NamedTuple):
    """When a worker is replaced after a task; another process begins with empty hands.

    Attributes:
        tasks: Tasks that it has done.
        resident: Memory that it holds, MB.
    """

    tasks: int = 200
    resident: float = 1500.0


LIMITS = Limits()


def in_processes(
    task: ParallelTask, arguments: Sequence[Any], jobs: int, limits: Limits = LIMITS
) -> Generator[TaskOutcome]:
    """Does a task with every argument in processes of its own.

    Args:
        task: Function at the top level of a module.
        arguments: Its arguments.
        jobs: Processes at a time.
        limits: When a worker is replaced.

    Yields:
        The outcomes, in the order in which they are done.

    Raises:
        WorkerError: Processes die before they are ready.
    """
    waiting = deque(range(len(arguments)))
    begun = [0] * len(arguments)
    workers: list[_Worker] = []
    stillborn = 0
    try:
        while waiting or any(w.busy is not None for w in workers):
            wanted = min(jobs, len(waiting) + sum(w.busy is not None for w in workers))
            workers += [_Worker(task, jobs) for _ in range(wanted - len(workers))]
            for worker in [w for w in workers if w.ready and w.busy is None]:
                if waiting and worker.give(waiting[0], arguments[waiting[0]]):
                    begun[waiting.popleft()] += 1
            heard = wait([w.connection for w in workers])  # a pipe is closed by the death of its process
            for worker in [w for w in workers if w.connection in heard]:
                message = worker.message()
                if message == _READY:
                    stillborn = 0
                elif message is not None:
                    worker.busy, worker.done = None, worker.done + 1
                    yield message.outcome
                    if worker.done >= limits.tasks or message.resident > limits.resident:
                        workers.remove(worker)
                        worker.end()
                else:
                    workers.remove(worker)
                    code = worker.end()
                    if worker.busy is None:
                        stillborn += not worker.ready
                        if stillborn >= _STARTS:
                            raise WorkerError(_no_start(code))
                    elif begun[worker.busy] < TRIES:
                        waiting.appendleft(worker.busy)
                    else:
                        yield TaskOutcome(worker.busy, None, WorkerError(_died(code)))
    finally:
        for worker in workers:
            worker.end()


class _Message(NamedTuple):
    """What a worker says after a task."""

    outcome: TaskOutcome
    resident: float


class _Worker:
    """A process with its pipe, as the supervisor sees it.

    Attributes:
        connection: Our end of the pipe.
        ready: Whether it has begun to listen.
        busy: Place of the argument that it works on; None where it waits.
        done: Tasks that it has done.
    """

    def __init__(self, task: ParallelTask, jobs: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, task), daemon=True)
        self.ready, self.done = False, 0
        self.busy: int | None = None
        with _surroundings(max(1, cores() // jobs)):
            self.process.start()
        theirs.close()

    def give(self, index: int, argument: Any) -> bool:
        """Hands it a task; False where it is no longer there."""
        try:
            self.connection.send((index, argument))
        except OSError:
            return False
        self.busy = index
        return True

    def message(self) -> Any:
        """What it says; None where it died."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            return None
        self.ready = True
        return message

    def end(self) -> int | None:
        """Ends it, at once where it works; its exit code, negative for a signal."""
        self.connection.close()
        if self.busy is not None or not self.ready:
            self.process.join(0.2)  # one that is dying on its own shall say of what
            self.process.kill()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode


@contextmanager
def _surroundings(share: int) -> Iterator[None]:
    """What a process inherits at its start: its share of the cores, and no ear for Ctrl-C, which is the parent's."""
    added = {k: v for k, v in threads(share).items() if k not in os.environ}
    masks = hasattr(signal, "pthread_sigmask")
    if masks:
        resource_tracker.ensure_running()  # which would unblock the signal in the midst of the first start
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else set()
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, task: ParallelTask) -> None:
    """A worker's life: a task, its outcome, the next, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.filterwarnings("ignore", category=BayesGrpoWarning)  # results say the same, in their place
    try:
        connection.send(_READY)
        while True:
            index, argument = connection.recv()
            outcome = attempt_away(task, argument, index)
            lighten()
            try:
                connection.send(_Message(outcome, resident()))
            except OSError:
                raise
            except Exception as error:  # a value that cannot be pickled
                connection.send(_Message(TaskOutcome(index, None, portable(error)), resident()))
    except (EOFError, OSError):
        os._exit(0)  # threads may still be inside XLA; tearing the interpreter down under them crashes


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _died(code: int | None) -> str:
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
    return f"its worker process {how}, {TRIES} times; where memory was short, use fewer jobs"


def _no_start(code: int | None) -> str:
    return (
        f"worker processes end before they are ready (exit code {code}); a script that uses jobs has to guard its own "
        "work by if __name__ == '__main__', because every process imports it; jobs=1 needs no process"
    )
