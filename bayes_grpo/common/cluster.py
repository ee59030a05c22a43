"""Tasks on a Dask cluster that somebody else has started."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from bayes_grpo.common.errors import MissingExtraError, SettingError, WorkerError
from bayes_grpo.common.tasks import ParallelTask, TaskOutcome, attempt_away

CLUSTER_PATIENCE = 5.0
"""Seconds in which a scheduler has to answer."""


def on_cluster(task: ParallelTask, arguments: Sequence[Any], address: str) -> Generator[TaskOutcome]:
    """Does a task with every argument on the workers of a Dask cluster, which need the same packages.

    Dask begins the tasks of a worker that died anew on others; one that has ended several workers is given up. The
    tasks are forgotten by the cluster when this generator is closed.

    Args:
        task: Function at the top level of a module that the workers can import.
        arguments: Its arguments.
        address: Address of the scheduler, such as "tcp://host:8786".

    Yields:
        The outcomes, in the order in which they are done.

    Raises:
        MissingExtraError: Dask is not installed.
        SettingError: No scheduler answers at the address.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise MissingExtraError(
            "work on a Dask cluster needs distributed, which is not installed; install bayes-grpo[dask]"
        ) from None
    try:
        client = Client(address, timeout=CLUSTER_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise SettingError(
            f"dask: expected the scheduler of a Dask cluster at {address!r}, none answers ({error}); start one with "
            "dask scheduler and give its address"
        ) from None
    with client:
        indices = range(len(arguments))
        futures = client.map(attempt_away, [task] * len(arguments), list(arguments), list(indices), pure=False)
        places = {future.key: i for i, future in enumerate(futures)}
        left = as_completed(futures, loop=client.loop)
        del futures  # what is done is not kept
        for future in left:
            try:
                # A result that its worker has taken to the grave is computed anew: this waits for it.
                outcome = future.result()
            except Exception as error:
                outcome = TaskOutcome(places[future.key], None, WorkerError(_why(error)))
            yield outcome


def _why(error: Exception) -> str:
    return f"the Dask cluster gave the task up ({type(error).__name__}: {error})"
