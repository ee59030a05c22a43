"""`adjust`: rows of a run without the luck of which prompts were drawn.

A row's mean is high where its prompts are easy. With effects û of prompts from other runs, or from steps before, the
part of a row that is theirs, β s mean(û), is taken off it. β is how far the effects carry over to this run: the slope
of its cells on û, for each row from the cells of all other rows. So nothing that is taken off a row knows of the row
itself, and the adjusted row has the same expectation over draws of prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.frames import frame_of
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.logs.run import Run
from bayes_grpo.rollouts.cells import cells_of
from bayes_grpo.rollouts.difficulty import PromptDifficulty
from bayes_grpo.rollouts.records import Rollouts

if TYPE_CHECKING:
    import pandas as pd

_STEEPEST = 2.0
"""A slope beyond this is noise of few cells."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Adjusted(Result):
    """Rows with and without the luck of their prompts, k of them.

    Attributes:
        name: Of the run.
        step: Shape (k,), like all.
        reward: Mean reward of the row.
        adjusted: The same less what its prompts are above or below the level.
        level: The smooth course of the reward.
        known: Share of its completions whose prompts have a difficulty.
        slope: How far the effects carry over: 1 where prompts are as far apart as the table has them. Mean over rows.
        removed: Share of the variance of rows about the level that went, as seen; below 0 where it grew.
        expected: The same as all single prompts have it: the squared correlation of their rewards and effects.
    """

    name: str
    step: np.ndarray
    reward: np.ndarray
    adjusted: np.ndarray
    level: np.ndarray
    known: np.ndarray
    slope: float
    removed: float
    expected: float

    in_json = ("sentence", "name", ("rows", "size"), "slope", "removed", "expected", ("known", "known_share"))

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.step)

    @property
    def known_share(self) -> float:
        """Share of completions whose prompts have a difficulty."""
        return float(self.known.mean())

    @property
    def sentence(self) -> str:
        """How much quieter the rows are."""
        return (
            f"Knowing how hard its prompts are takes {self.removed:.0%} of the variance of a row about its course "
            f"({self.expected:.0%} expected); {self.known_share:.0%} of the completions have a known prompt."
        )

    def run(self, run: Run) -> Run:
        """A log whose rewards are the adjusted ones at the steps that the rollouts have.

        Args:
            run: The log of the same run, at the same steps (`join` tells whether).

        Raises:
            SettingError: No step of the log is one of the rollouts'.
        """
        place = np.searchsorted(self.step, run.step)
        found = (place < self.size) & (self.step[np.minimum(place, self.size - 1)] == run.step)
        if not found.any():
            raise SettingError(
                f"expected steps of {plain(run.name, 60)} among those of the rollouts, found none; see join"
            )
        reward = np.array(run.reward)
        reward[found] += (self.adjusted - self.reward)[place[found]]
        note = f"rewards of {int(found.sum())} rows are adjusted for how hard their prompts are"
        return replace(run, reward=reward, notes=(*run.notes, note))

    def to_frame(self) -> pd.DataFrame:
        """One row a step."""
        names = ("step", "reward", "adjusted", "level", "known")
        return frame_of(
            [dict(zip(names, row, strict=True)) for row in zip(*(getattr(self, n) for n in names), strict=True)], "step"
        )


def adjust(rollouts: Rollouts, table: PromptDifficulty) -> Adjusted:
    """Takes the luck of which prompts were drawn off the rows of a run.

    Args:
        rollouts: The run.
        table: Difficulty of prompts, learned from other runs, or from steps before those of ``rollouts``.

    Returns:
        The rows, and how much quieter they are.

    Raises:
        FitError: Nothing tells prompts apart.
        SettingError: The table was learned from these very rollouts: it would take off what it was made of.
    """
    if rollouts.source in table.sources and len(rollouts) and table.completions.sum() >= len(rollouts):
        raise SettingError(
            "expected difficulty from other runs or earlier steps, found a table learned from "
            f"{rollouts.source} itself; leave it out"
        )
    cells = cells_of(rollouts)
    step, row = np.unique(cells.step, return_inverse=True)
    count = np.bincount(row, cells.n)

    def mean(values: np.ndarray) -> np.ndarray:
        return np.bincount(row, cells.n * values) / count

    effect = table.effects(cells.prompt)
    reward, level = mean(cells.mean), mean(cells.level)
    carried, size = np.bincount(row, effect * cells.z), np.bincount(row, effect**2)
    slope = np.clip((carried.sum() - carried) / np.maximum(size.sum() - size, 1e-12), 0.0, _STEEPEST)
    adjusted = reward - slope * mean(cells.spread * effect)
    noise = float(np.var(reward - level))
    if len(step) < 3 or noise == 0.0:
        raise FitError(f"expected at least 3 rows that vary about their course, found {len(step)} in {rollouts.name}")
    return Adjusted(
        name=rollouts.name,
        step=step,
        reward=reward,
        adjusted=adjusted,
        level=level,
        known=mean(np.isin(cells.prompt, table.prompt).astype(float)),
        slope=float(slope.mean()),
        removed=1.0 - float(np.var(adjusted - level)) / noise,
        expected=float(max(carried.sum(), 0.0) ** 2 / max(size.sum() * np.sum(cells.z**2), 1e-12)),
    )
