"""Outcomes of reference runs at their settings: each run worked or failed.

P(fails) of a candidate (`bayes_grpo.risk.failure`) uses runs that worked as lower bounds of the failure threshold and
runs that failed as upper bounds. A reference run without a known learning rate is skipped; other unknown settings count
as unchanged, as in the training data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.mode import failure_of, probabilities_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import ModeProbabilities
from bayes_grpo.diagnosis.trend import rows_collapsed
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.candidates import setting_of
from bayes_grpo.references.gather import ExcludedRun, RunSources, gather_references
from bayes_grpo.risk.change import Change, change
from bayes_grpo.rows.series import Series

_NAMED = 5
"""Reference runs that a sentence names."""


class ReferenceOutcome(NamedTuple):
    """A reference run, its known settings, their change from the present ones, and whether it failed."""

    name: str
    settings: Mapping[str, float]
    change: Change
    failed: bool


@dataclass(frozen=True)
class ReferenceOutcomes(Result):
    """Reference runs at their settings.

    Attributes:
        runs: Runs with known settings.
        left_out: The others, with the reasons.
    """

    runs: tuple[ReferenceOutcome, ...] = ()
    left_out: tuple[ExcludedRun, ...] = ()

    @property
    def worked_changes(self) -> tuple[Change, ...]:
        """Changes of runs that worked."""
        return tuple(x.change for x in self.runs if not x.failed)

    @property
    def failed_changes(self) -> tuple[Change, ...]:
        """Changes of runs that failed."""
        return tuple(x.change for x in self.runs if x.failed)

    @property
    def sentence(self) -> str:
        """How many failed, and from which learning rate on."""
        if not self.runs:
            why = f" ({self.left_out[-1].name}: {self.left_out[-1].why})" if self.left_out else ""
            return f"reference runs: none shows what fails at which settings{why}"
        total = sum(x.failed for x in self.runs)
        rates = sorted(x.settings["learning_rate"] for x in self.runs if x.failed)
        where = f", at learning rates from {rates[0]:g} on" if rates else ""
        names = ", ".join(x.name for x in self.runs[:_NAMED]) + ", …" * (len(self.runs) > _NAMED)
        return f"reference runs: {total} of {len(self.runs)} failed{where} ({names})"


def reference_outcomes(
    run: Run, table: Series, present: Mapping[str, float], rated: bool, reference_runs: RunSources
) -> ReferenceOutcomes:
    """Outcomes of reference runs at their settings.

    Args:
        run: The present run.
        table: Its rows.
        present: Its settings, by the names of `Change`.
        rated: Whether its learning rate is known; without it, no change to reference runs is known.
        reference_runs: Sources of reference runs.

    Raises:
        LogReadError: A path that was named does not exist or cannot be read.
    """
    found = gather_references(run, table, reference_runs)
    runs, left_out = [], list(found.left_out)
    for other, rows in found.runs:
        settings = {k: v for k in present if (v := setting_of(other, rows, k)) is not None}
        if not rated or "learning_rate" not in settings:
            whose = "its log" if rated else "the present run's log"
            left_out.append(ExcludedRun(plain(other.name, 80), f"{whose} does not state the learning rate"))
            continue
        runs.append(
            ReferenceOutcome(plain(other.name, 80), settings, change(present, settings), run_failed(other, rows))
        )
    return ReferenceOutcomes(tuple(runs), tuple(left_out))


def run_failed(run: Run, table: Series, diagnosed: ModeProbabilities | None = None) -> bool:
    """Whether a run failed: its rows collapsed, or its diagnosis finds a failure more probably than not.

    Args:
        run: The run.
        table: Its rows.
        diagnosed: Its failure probabilities, where they are known already.
    """
    return rows_collapsed(table.y) or failure_of(diagnosed or probabilities_of(RunSoFar.of(run))) is not None
