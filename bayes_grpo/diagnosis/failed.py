"""Whether a run failed in the way that settings cause, which is what P(fails) counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bayes_grpo.diagnosis.history import probabilities_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run

BY_SETTINGS = ("policy_concentration", "dynamical_instability")
"""Failures that settings cause, by their names as modes."""


class Failure(NamedTuple):
    """A failure that settings cause, by its name as a mode, with its probability by the diagnosis."""

    mode: str
    probability: float


def failure_of(run: Run) -> Failure | None:
    """The likeliest failure of a run that its own diagnosis finds more probably than not; None where it finds none."""
    return failure_in(probabilities_of(RunSoFar.of(run)).probability)


def failure_in(probability: Mapping[str, float]) -> Failure | None:
    """The same by the probabilities of a diagnosis that was made."""
    found = max((Failure(mode, probability.get(mode, 0.0)) for mode in BY_SETTINGS), key=lambda x: x.probability)
    return found if found.probability > THRESHOLDS.probable else None
