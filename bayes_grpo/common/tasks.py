"""One task and what became of it: what it raises is data.

A task is a function at the top level of a module and one argument, both of which can be pickled.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoError

ParallelTask = Callable[[Any], Any]
"""What is done with every argument."""


class TaskOutcome(NamedTuple):
    """What became of one task.

    Attributes:
        place: Place of its argument.
        value: What the function returned; None where it failed.
        error: What it raised, or a `WorkerError` where its process died twice; None where it succeeded.
    """

    place: int
    value: Any
    error: Exception | None


def attempt(task: ParallelTask, argument: Any, place: int = 0) -> TaskOutcome:
    """Does one task; what it raises is data. An interrupt is none."""
    try:
        return TaskOutcome(place, task(argument), None)
    except Exception as error:
        return TaskOutcome(place, None, error)


def attempt_away(task: ParallelTask, argument: Any, place: int = 0) -> TaskOutcome:
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
