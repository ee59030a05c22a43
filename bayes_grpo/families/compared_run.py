"""A run of a comparison: its first, last and best reward, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass

from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.levels import RewardLevels
from bayes_grpo.rows.series import Series
from bayes_grpo.signals.path import SignalPath, fit_path
from bayes_grpo.signals.run_paths import RunPaths


@dataclass(frozen=True)
class ComparedRun(Result):
    """One run of a recipe.

    Attributes:
        recipe: "A" or "B".
        name: Its name.
        rows: Number of rows of the compared reward.
        last_step: Step of the last of them.
        levels: First, last and best reward, without the noise of the rows.
        status: How the run stands.
    """

    recipe: str
    name: str
    rows: int
    last_step: float
    levels: RewardLevels
    status: Status

    @classmethod
    def of(cls, recipe: str, run: Run, table: Series) -> ComparedRun:
        """A run with the rows that are compared."""
        found = diagnose(run)
        path = _path(found.paths, table)
        return cls(recipe, run.name, len(table.y), float(table.step[-1]), path.display_levels, found.status)


def _path(paths: RunPaths | None, table: Series) -> SignalPath:
    """The path of the compared reward, which every other command shows; else that of its rows."""
    path = None
    if paths is not None:
        path = paths.reward if paths.reward_key == table.signal else paths.held_out
    path = path or fit_path(table.step, table.y)
    assert path is not None  # a recipe's readings need more rows than a path
    return path
