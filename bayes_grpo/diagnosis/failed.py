"""Whether a run failed in the way that settings cause, which is what P(fails) counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run

BY_SETTINGS = ("policy_concentration", "dynamical_instability")
"""Failures that settings cause, by their names as modes."""


class Failure(NamedTuple):
    """A failure that settings cause.

    Attributes:
        mode: Its name as a mode.
        probability: By the diagnosis, whichever failure leads.
    """

    mode: str
    probability: float


def failure_of(run: Run) -> Failure | None:
    """The likeliest failure of a run that its own diagnosis finds more probably than not; None where it finds none.

    Args:
        run: The run.
    """
    return failure_in(diagnose(run).own)


def failure_in(own: Mapping[str, float]) -> Failure | None:
    """The same of a diagnosis that was made.

    Args:
        own: Mode → probability that it is under way, alone or beside another.
    """
    found = max((Failure(mode, own.get(mode, 0.0)) for mode in BY_SETTINGS), key=lambda x: x.probability)
    return found if found.probability > THRESHOLDS.probable else None


def is_failing(run: Run) -> bool:
    """Whether a run's own diagnosis finds, more probably than not, a failure of the kind that `p_fails` counts.

    Args:
        run: The run.
    """
    return failure_of(run) is not None
