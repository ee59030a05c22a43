"""Independent tasks: one after another here, in worker processes that may die, or on any executor.

What a task raises comes back as data, and so does its death: a long call does not end with one of its tasks. A task is
a function at the top level of a module and one argument, both of which can be pickled. Processes are spawned, never
forked: JAX has threads, and a fork copies locks that are never released.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning, MissingExtraError, SettingError, WorkerError
from bayes_grpo.common.runtime import cores, threads

ParallelTask = Callable[[Any], Any]
"""A function of one argument that can be pickled."""

POOL_TASKS = 50
"""Tasks of a worker process, on average, until all are replaced by new ones: a process grows with every shape of log
that it compiles programs for. (`max_tasks_per_child` can hang: https://github.com/python/cpython/issues/115634.)"""


class TaskOutcome(NamedTuple):
    """Result of one task.

    Attributes:
        place: Index of its argument.
        value: What the function returned; None where it failed.
        error: What it raised, or a `WorkerError` where its process died twice; None where it succeeded.
    """

    place: int
    value: Any
    error: Exception | None


@contextmanager
def outcomes(
    task: ParallelTask, arguments: Sequence[Any], *, jobs: int = 1, executor: Executor | None = None
) -> Iterator[Iterator[TaskOutcome]]:
    """Does a task with every argument, and gives the outcomes as they come.

    Leaving the block ends what still runs. Numbers do not depend on where a task runs, as long as the task's own do
    not: float64 on one machine is the same in every process, whatever the number of threads.

    Args:
        task: Function at the top level of a module.
        arguments: Its arguments.
        jobs: Worker processes; with 1 the tasks run in this process, one after another.
        executor: Where to run the tasks instead; it stays open.

    Raises:
        SettingError: An impossible number of processes.
        WorkerError: Processes cannot be started.
    """
    check_jobs(jobs)
    if executor is not None:
        started = _on_executor(task, arguments, executor)
    else:
        started = _here(task, arguments) if jobs == 1 else _in_processes(task, arguments, jobs)
    with closing(started) as found:
        yield found


def check_jobs(jobs: int) -> None:
    """Raises `SettingError` unless it is a number of processes."""
    if not (isinstance(jobs, int) and not isinstance(jobs, bool) and jobs >= 1):
        raise SettingError(f"jobs: expected a whole number of processes of at least 1, found {jobs!r}")


@contextmanager
def dask_executor(address: str | None) -> Iterator[Executor | None]:
    """An executor on a running Dask cluster, whose workers need the same packages and files; None without an address.

    Raises:
        MissingExtraError: Dask is not installed.
        SettingError: No scheduler answers at the address.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError(
            "dask: work on a cluster needs distributed, which is not installed; install bayes-grpo[dask]"
        ) from None
    try:
        client = Client(address, timeout=5.0, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise SettingError(f"dask: expected a scheduler at {address!r}, none answers ({error}); start one") from None
    with client as cluster:
        yield cluster.get_executor(pure=False)


def _here(task: ParallelTask, arguments: Sequence[Any]) -> Generator[TaskOutcome]:
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
    """Pools of processes, one after another; a pool breaks as a whole where one of its processes dies.

    The tasks under way are then begun a second time, each alone in a pool, so that the one to blame is known.
    """
    waiting, suspects = deque(range(len(arguments))), deque[int]()
    while waiting or suspects:
        alone = bool(suspects)
        queue, size = (suspects, 1) if alone else (waiting, min(jobs, len(waiting)))
        left, under_way = 1 if alone else size * POOL_TASKS, dict[Future[Any], int]()
        with _pool(size, max(1, cores() // jobs)) as pool:
            while under_way or (left and queue):
                try:
                    while left and queue and len(under_way) < size:
                        under_way[pool.submit(_attempt, task, arguments[queue[0]])] = queue[0]
                        queue.popleft()
                        left -= 1
                except BrokenProcessPool:
                    left = 0
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    place = under_way.pop(future)
                    if not isinstance(future.exception(), BrokenProcessPool):
                        yield _outcome(future, place)
                    elif alone:
                        yield TaskOutcome(place, None, WorkerError(_DIED))
                    else:
                        suspects.append(place)
                        left = 0


@contextmanager
def _pool(size: int, share: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes end at once with the block, or with this process: they listen to a pipe."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(size, mp_context=context, initializer=_begin, initargs=(receiver, threads(share)))
    try:
        try:
            pool.submit(os.getpid).result()
        except BrokenProcessPool:
            raise WorkerError(_NO_START) from None
        yield pool
    finally:
        sender.close()
        pool.shutdown(cancel_futures=True)
        receiver.close()


def _begin(receiver: Connection, environment: dict[str, str]) -> None:
    """A worker's start: its share of the cores, and deaf to Ctrl-C, which is the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", category=BayesGrpoWarning)  # results say the same, in their place
    threading.Thread(target=_end_with, args=(receiver,), daemon=True).start()


def _end_with(receiver: Connection) -> None:
    receiver.poll(None)  # closed by the parent, or by its death
    os._exit(0)  # threads may be inside XLA; a normal end of the interpreter would crash


def _attempt(task: ParallelTask, argument: Any) -> tuple[Any, Exception | None]:
    """Value and error of a task in another process; the error can be pickled, and an unforeseen one has its origin."""
    try:
        return task(argument), None
    except Exception as error:
        if not isinstance(error, BayesGrpoError):
            error.add_note("in another process:\n" + "".join(traceback.format_exception(error)))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return None, RuntimeError(f"{type(error).__name__}: {error}")
        return None, error


def _outcome(future: Future[tuple[Any, Exception | None]], place: int) -> TaskOutcome:
    """Outcome of a future; the pool's own error is a value that cannot be pickled."""
    try:
        return TaskOutcome(place, *future.result())
    except Exception as error:
        return TaskOutcome(place, None, error)


_DIED = "its worker process died twice; where memory was short, use fewer jobs"
_NO_START = (
    "worker processes end before they are ready; a script that uses jobs needs the guard "
    "if __name__ == '__main__', because every process imports it; jobs=1 needs no process"
)
