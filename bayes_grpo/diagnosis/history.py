"""What would have been said earlier: the same probabilities at cuts of the log, each of which sees no row after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.mode import all_modes, label_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.smoothing import LEAST_VALUES
from bayes_grpo.diagnosis.status import MODES, ModeProbabilities
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run


@dataclass(frozen=True)
class Probabilities(ModeProbabilities):
    """Of one look at a run.

    Attributes:
        probability: Failure → probability that it is under way; of those beside the four where the log shows them.
    """

    probability: Mapping[str, float]


def probabilities_of(rows: RunSoFar) -> Probabilities:
    """Of a run at the last of some rows."""
    looks = {mode: mode.look(rows) for mode in all_modes() if mode.is_failure}
    return Probabilities({m.name: x.probability for m, x in looks.items() if x.seen or m.name in MODES})


def probabilities_after(run: Run, rows: int) -> Probabilities:
    """What would have been said after the first so many rewards of a run."""
    step, _ = run.rewards
    return probabilities_of(RunSoFar.of(run.until(float(step[rows - 1]) if rows else -np.inf)))


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


@dataclass(frozen=True, eq=False)
class History(Result):
    """Probabilities at cuts of a log.

    Attributes:
        step: Last step that each cut sees, shape (cuts,); the last cut is the whole log.
        rows: Rewards that each cut sees, shape (cuts,).
        probability: Mode → probability that it is under way, shape (cuts,).
    """

    step: np.ndarray
    rows: np.ndarray
    probability: Mapping[str, np.ndarray]

    in_json = (..., "sentence")

    @property
    def findings(self) -> tuple[str, ...]:
        """The most probable failure at each cut; "" where none is more probable than not."""
        worst = [max(MODES, key=lambda mode: self.probability[mode][i]) for i in range(len(self.step))]
        return tuple(m if self.probability[m][i] >= THRESHOLDS.probable else "" for i, m in enumerate(worst))

    @property
    def sentence(self) -> str:
        """Which failure would have been named until when."""
        spans = [list(part) for _, part in groupby(zip(self.findings, self.step, strict=True), key=lambda x: x[0])]
        names = [label_of(part[0][0]) or "no failure" for part in spans]
        said = [f"{name} until step {part[-1][1]:g}" for name, part in zip(names[:-1], spans[:-1], strict=True)]
        return ", then ".join([*said, f"{names[-1]} from step {spans[-1][0][1]:g} on"])


def history_of(run: Run, now: ModeProbabilities, cuts: int) -> History | None:
    """Looks at a run at cuts spread evenly over its rewards.

    Args:
        run: The run, up to now.
        now: What is said now, of the whole run: the last cut.
        cuts: How many; fewer where the log has fewer rows.

    Returns:
        The history; None where the log is too short for an earlier cut.
    """
    step, _ = run.rewards
    rows = np.unique(np.round(len(step) * np.arange(1, cuts) / cuts).astype(int))
    rows = rows[(rows >= LEAST_VALUES) & (rows < len(step))]
    if not len(rows):
        return None
    found = [*(probabilities_after(run, n).probability for n in rows.tolist()), now.probability]
    steps = [*step[rows - 1], max(float(s[-1]) for s in (run.step, run.eval_step) if len(s))]
    return History(
        np.array(steps), np.array([*rows, len(step)]), {mode: np.array([p[mode] for p in found]) for mode in MODES}
    )
