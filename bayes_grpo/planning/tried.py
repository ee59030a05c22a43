"""Outcomes of reference runs at their settings: each run worked or failed.

P(fails) of a candidate (`bayes_grpo.risk.failing`) uses runs that worked as lower bounds of the failure threshold and
runs that failed as upper bounds. A reference run without a known learning rate is skipped; other unknown settings count
as unchanged, as in the training data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.fallen import rows_collapsed
from bayes_grpo.diagnosis.probabilities import failure_of
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.candidates import setting_of
from bayes_grpo.risk.change import Change, change
from bayes_grpo.rows.series import Series
from bayes_grpo.siblings.gather import Like, NotSibling, gather_siblings


class Tried(NamedTuple):
    """A reference run, its known settings, their change from the present ones, and whether it failed."""

    name: str
    settings: Mapping[str, float]
    change: Change
    failed: bool


@dataclass(frozen=True)
class TriedSettings(Result):
    """Reference runs at their settings.

    Attributes:
        runs: Runs with known settings.
        left_out: The others, with the reasons.
    """

    runs: tuple[Tried, ...] = ()
    left_out: tuple[NotSibling, ...] = ()

    @property
    def worked(self) -> tuple[Change, ...]:
        """Changes of runs that worked."""
        return tuple(x.change for x in self.runs if not x.failed)

    @property
    def fell(self) -> tuple[Change, ...]:
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
        return f"reference runs: {total} of {len(self.runs)} failed{where}"


def tried_settings(run: Run, table: Series, present: Mapping[str, float], rated: bool, like: Like) -> TriedSettings:
    """Outcomes of reference runs at their settings.

    Args:
        run: The present run.
        table: Its rows.
        present: Its settings, by the names of `Change`.
        rated: Whether its learning rate is known; without it, no change to reference runs is known.
        like: Sources of reference runs.

    Raises:
        LogReadError: A path that was named does not exist or cannot be read.
    """
    found = gather_siblings(run, table, like)
    runs, left_out = [], list(found.left_out)
    for other, rows in zip(found.runs, found.tables, strict=True):
        settings = {k: v for k in present if (v := setting_of(other, rows, k)) is not None}
        if not rated or "learning_rate" not in settings:
            whose = "its log" if rated else "the present run's log"
            left_out.append(NotSibling(plain(other.name, 80), f"{whose} does not state the learning rate"))
            continue
        runs.append(Tried(plain(other.name, 80), settings, change(present, settings), run_failed(other, rows)))
    return TriedSettings(tuple(runs), tuple(left_out))


def run_failed(run: Run, table: Series) -> bool:
    """Whether a run failed: its rows collapsed, or its diagnosis finds a failure more probably than not."""
    return rows_collapsed(table.y) or failure_of(run) is not None
