"""Independent tasks: one after another here, in worker processes that may die, or on any executor.

What a task raises comes back as data, and so does its death. A task is a function at the top level of a module and one
argument, both of which can be pickled.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoWarning, SettingError, WorkerError
from bayes_grpo.common.runtime import cores, threads

ParallelTask = Callable[[Any], Any]
"""A function of one argument that can be pickled."""

WORKER_TASKS = 50
"""Tasks of a process until another takes its place: it grows with every shape of log that it compiles programs for.
(`max_tasks_per_child` can hang: https://github.com/python/cpython/issues/115634.)"""


class TaskOutcome(NamedTuple):
    """Result of one task: index of its argument, and what it returned, or what it raised (`WorkerError` if it died)."""

    place: int
    value: Any
    error: Exception | None


@contextmanager
def outcomes(
    task: ParallelTask, arguments: Sequence[Any], *, jobs: int = 1, executor: Executor | None = None
) -> Iterator[Iterator[TaskOutcome]]:
    """Does a task with every argument, and gives the outcomes as they come. Leaving the block ends what still runs.

    The task is a function at the top level of a module. With one job the tasks run in this process, one after another;
    an executor that is given stays open.

    Raises:
        SettingError: An impossible number of processes.
        WorkerError: Processes cannot be started.
    """
    check_jobs(jobs)
    if executor is not None:
        started = _on_executor(task, arguments, executor)
    elif jobs == 1:
        started = _run_serially(task, arguments)
    else:
        started = _in_processes(task, arguments, jobs)
    with closing(started) as found:
        yield found


def check_jobs(jobs: int) -> None:
    """Raises `SettingError` unless it is a number of processes."""
    if not (isinstance(jobs, int) and not isinstance(jobs, bool) and jobs >= 1):
        raise SettingError(f"expected a whole number of processes of at least 1, found {jobs!r}", parameter="jobs")


def _run_serially(task: ParallelTask, arguments: Sequence[Any]) -> Generator[TaskOutcome]:
    for place, argument in enumerate(arguments):
        try:
            yield TaskOutcome(place, task(argument), None)
        except Exception as error:
            yield TaskOutcome(place, None, error)


def _on_executor(task: ParallelTask, arguments: Sequence[Any], executor: Executor) -> Generator[TaskOutcome]:
    places = {executor.submit(_attempt, task, argument): i for i, argument in enumerate(arguments)}
    try:
        for future in as_completed(list(places)):
            yield _outcome(future, places.pop(future))
    finally:
        for future in places:
            future.cancel()


def _in_processes(task: ParallelTask, arguments: Sequence[Any], jobs: int) -> Generator[TaskOutcome]:
    """Each process is a pool of its own, so that one that dies takes its own task alone with it."""
    share = max(1, cores() // jobs)
    waiting = deque(enumerate(arguments))
    idle = list[ProcessPoolExecutor]()
    under_way = dict[Future[Any], tuple[int, ProcessPoolExecutor]]()
    begun = Counter[ProcessPoolExecutor]()
    with ExitStack() as stack:
        while waiting or under_way:
            while waiting and len(under_way) < jobs:
                pool = idle.pop() if idle else stack.enter_context(_process(share, first=not begun))
                try:
                    future = pool.submit(_attempt, task, waiting[0][1])
                except BrokenProcessPool:  # it died while it had nothing to do
                    continue
                under_way[future] = (waiting.popleft()[0], pool)
                begun[pool] += 1
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                place, pool = under_way.pop(future)
                if begun[pool] < WORKER_TASKS and not isinstance(future.exception(), BrokenProcessPool):
                    idle.append(pool)
                else:
                    pool.shutdown(wait=False)
                yield _outcome(future, place)


@contextmanager
def _process(share: int, first: bool) -> Iterator[ProcessPoolExecutor]:
    """A pool of one process, which ends at once with the block or with this process: it listens to a pipe.

    It is spawned, not forked: JAX has threads, and a fork copies locks that are never released.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(1, mp_context=context, initializer=_prepare, initargs=(receiver, threads(share)))
    try:
        if first and pool.submit(os.getpid).exception():
            raise WorkerError(_NO_START)
        yield pool
    finally:
        sender.close()
        pool.shutdown(cancel_futures=True)
        receiver.close()


def _prepare(receiver: Connection, environment: dict[str, str]) -> None:
    """Gives a process its share of the cores; Ctrl-C is the parent's, and the process ends when the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", category=BayesGrpoWarning)  # results say the same, in their place
    threading.Thread(target=_end_with, args=(receiver,), daemon=True).start()


def _end_with(receiver: Connection) -> None:
    receiver.poll(None)  # closed by the parent, or by its death
    os._exit(0)  # threads may be inside XLA; a normal end of the interpreter would crash


def _attempt(task: ParallelTask, argument: Any) -> Any:
    """Does a task in another process; an error that cannot be pickled would break the pool."""
    try:
        return task(argument)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise


def _outcome(future: Future[Any], place: int) -> TaskOutcome:
    try:
        return TaskOutcome(place, future.result(), None)
    except BrokenProcessPool:
        return TaskOutcome(place, None, WorkerError(_DIED))
    except Exception as error:
        return TaskOutcome(place, None, error)


_DIED = "its worker process died; where memory was short, use fewer jobs, and run this again"
_NO_START = (
    "worker processes end before they are ready; a script that uses jobs needs the guard "
    "if __name__ == '__main__', because every process imports it; jobs=1 needs no process"
)
