"""Independent tasks, one after another in this process, side by side in others, or on a Dask cluster.

A task is a function at the top level of a module and one argument, both of which can be pickled. What it raises comes
back as data, and so does its death: a long run does not end with one of its tasks.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoError, SettingError
from bayes_grpo.common.machine import give_back, resident

Task = Callable[[Any], Any]
"""What is done with every argument."""
LARGE = 1200.0
"""Memory from which on a process is made small again between tasks, MB; a task adds up to a quarter to it."""


class Outcome(NamedTuple):
    """What became of one task.

    Attributes:
        place: Place of its argument.
        value: What the function returned; None where it failed.
        error: What it raised, or a `WorkerError` where its process died twice; None where it succeeded.
    """

    place: int
    value: Any
    error: Exception | None


@contextmanager
def outcomes(
    task: Task, arguments: Sequence[Any], *, jobs: int = 1, dask: str | None = None
) -> Iterator[Iterator[Outcome]]:
    """Does a task with every argument, and gives the outcomes as they come.

    Leaving the block ends what still runs. Numbers do not depend on where a task runs, as long as the task's own do
    not: float64 on one machine is the same in every process, whatever the number of threads.

    Args:
        task: Function at the top level of a module.
        arguments: Its arguments.
        jobs: Processes; with 1 the tasks are done here: one after another, or many at once on an accelerator, which
            runs a program for all of those that call it (`bayes_grpo.common.together`).
        dask: Address of the scheduler of a Dask cluster to send them to instead, such as "tcp://host:8786".

    Yields:
        The outcomes, in the order in which they are done.

    Raises:
        MissingExtraError: Dask is not installed.
        SettingError: An impossible number of processes, or no scheduler at the address.
        WorkerError: Processes cannot be started.
    """
    check_jobs(jobs)
    with closing(_started(task, arguments, jobs, dask)) as found:
        yield found


def check_jobs(jobs: int) -> None:
    """Raises `SettingError` unless it is a number of processes."""
    if not (isinstance(jobs, int) and not isinstance(jobs, bool) and jobs >= 1):
        raise SettingError(f"jobs: expected a whole number of processes of at least 1, found {jobs!r}")


def attempt(task: Task, argument: Any, place: int = 0) -> Outcome:
    """Does one task; what it raises is data. An interrupt is none."""
    try:
        return Outcome(place, task(argument), None)
    except Exception as error:
        return Outcome(place, None, error)


def attempt_away(task: Task, argument: Any, place: int = 0) -> Outcome:
    """`attempt` in another process: an error that can travel, with where it comes from if nobody foresaw it."""
    done = attempt(task, argument, place)
    if done.error is None:
        return done
    if not isinstance(done.error, BayesGrpoError):
        done.error.add_note("in another process:\n" + "".join(traceback.format_exception(done.error)))
    return done._replace(error=portable(done.error))


def portable(error: Exception) -> Exception:
    """The error, or one of the same words where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _started(task: Task, arguments: Sequence[Any], jobs: int, dask: str | None) -> Generator[Outcome]:
    if dask is not None:
        from bayes_grpo.common.cluster import on_cluster

        return on_cluster(task, arguments, dask)
    if jobs == 1:
        from bayes_grpo.common.programs import accelerated

        if not accelerated():
            return _here(task, arguments)
        from bayes_grpo.common.together import together

        return together(task, arguments)
    from bayes_grpo.common.processes import in_processes

    return in_processes(task, arguments, jobs)


def _here(task: Task, arguments: Sequence[Any]) -> Generator[Outcome]:
    for place, argument in enumerate(arguments):
        yield attempt(task, argument, place)
        if resident() > LARGE:
            lighten()


def lighten(most: float = LARGE) -> bool:
    """Hands back freed memory, and where that is not enough what was compiled, which comes back from the cache on disk.

    Args:
        most: Memory above which programs are let go, MB.

    Returns:
        Whether they were.
    """
    give_back()
    if resident() <= most or "jax" not in sys.modules:
        return False
    from bayes_grpo.common.programs import forget_programs

    forget_programs(traced=True)
    give_back()
    return True
