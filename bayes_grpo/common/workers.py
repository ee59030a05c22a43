"""Independent tasks, one after another in this process, side by side in others, or on a Dask cluster.

What a task raises comes back as data, and so does its death: a long run does not end with one of its tasks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.machine import resident
from bayes_grpo.common.memory import LARGE_PROCESS, lighten
from bayes_grpo.common.tasks import ParallelTask, TaskOutcome, attempt


@contextmanager
def outcomes(
    task: ParallelTask, arguments: Sequence[Any], *, jobs: int = 1, dask: str | None = None
) -> Iterator[Iterator[TaskOutcome]]:
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


def _started(task: ParallelTask, arguments: Sequence[Any], jobs: int, dask: str | None) -> Generator[TaskOutcome]:
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


def _here(task: ParallelTask, arguments: Sequence[Any]) -> Generator[TaskOutcome]:
    for place, argument in enumerate(arguments):
        yield attempt(task, argument, place)
        if resident() > LARGE_PROCESS:
            lighten()
