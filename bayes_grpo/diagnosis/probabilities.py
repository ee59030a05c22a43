"""Probabilities of the failures of a run after some of its rows, and the failure that settings cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.mode import all_modes
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import MODES, ModeProbabilities
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run


@dataclass(frozen=True)
class Probabilities(ModeProbabilities):
    """Of one look at a run.

    Attributes:
        probability: Failure → probability that it is under way; of other failures where the log shows them.
    """

    probability: Mapping[str, float]


def probabilities_of(rows: RunSoFar) -> Probabilities:
    """Of a run at the last of some rows."""
    looks = {mode: mode.look(rows) for mode in all_modes() if mode.is_failure}
    return Probabilities({m.name: x.probability for m, x in looks.items() if x.seen or m.name in MODES})


def probabilities_after(run: Run, rows: int) -> Probabilities:
    """Of a run after its first so many rewards, without those that came later."""
    step, _ = run.rewards
    return probabilities_of(RunSoFar.of(run.until(float(step[rows - 1]) if rows else -np.inf)))


BY_SETTINGS = ("policy_concentration", "dynamical_instability")
"""Failures that settings cause, by their names as modes."""


class Failure(NamedTuple):
    """A failure that settings cause, by its name as a mode, with its probability by the diagnosis."""

    mode: str
    probability: float


def failure_of(diagnosed: ModeProbabilities) -> Failure | None:
    """The likeliest of these failures, where its own diagnosis finds it more probable than not; else None."""
    probability = diagnosed.probability
    found = max((Failure(mode, probability.get(mode, 0.0)) for mode in BY_SETTINGS), key=lambda x: x.probability)
    return found if found.probability > THRESHOLDS.probable else None
