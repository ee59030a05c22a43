"""`describe_rollouts`: everything that rollouts say of a run, in one result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.results import Result
from bayes_grpo.logs.run import Run
from bayes_grpo.rollouts.cells import cells_of
from bayes_grpo.rollouts.decompose import decompose
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.difficulty import PromptDifficulty, difficulty
from bayes_grpo.rollouts.groups import GroupSummary, groups_of
from bayes_grpo.rollouts.join import Joined, join
from bayes_grpo.rollouts.records import Rollouts

_WINDOWS, _BINS = 24, 11


class RewardsOfPrompts(NamedTuple):
    """Mean rewards of prompts over the steps, w windows and b bins.

    Attributes:
        step: First step of every window and the last of all, shape (w + 1,).
        reward: Edges of the bins, shape (b + 1,).
        share: Share of the prompts of a window in every bin, shape (w, b).
    """

    step: np.ndarray
    reward: np.ndarray
    share: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class RolloutSummary(Result):
    """What rollouts say of a run.

    Attributes:
        rollouts: The completions.
        gain: What its gain is made of; None with fewer than two steps.
        groups: Groups and how far prompts lie apart; None where nothing tells groups, or nothing varies.
        difficulty: How hard its prompts are; None where nothing tells prompts.
        over_time: Mean rewards of prompts over the steps; None likewise.
        joined: How they lie on a log; None where none was given.
        missing: What could not be said, and why.
    """

    rollouts: Rollouts
    gain: Decomposition | None
    groups: GroupSummary | None
    difficulty: PromptDifficulty | None
    over_time: RewardsOfPrompts | None
    joined: Joined | None
    missing: tuple[str, ...]

    in_json = ("sentence", ...)

    @property
    def sentence(self) -> str:
        """What a gain is made of, and of what use the groups are; else what there is."""
        said = [x.sentence for x in (self.gain, self.groups) if x is not None]
        return " ".join(said) or self.rollouts.sentence


def describe_rollouts(
    rollouts: Rollouts, run: Run | None = None, *, formatted: str | None = None, seed: int = 0
) -> RolloutSummary:
    """Sizes, groups, difficulty, and what a gain is made of.

    Args:
        rollouts: The completions of a run.
        run: Its log, to see whether both fit.
        formatted: The part that says whether an answer is formatted; found by its name if None.
        seed: Seed of the intervals.

    Raises:
        SettingError: There is no such part, or it is not yes or no.
    """
    missing: list[str] = []

    def tried(made):
        try:
            return made()
        except FitError as error:
            missing.append(str(error))
            return None

    return RolloutSummary(
        rollouts=rollouts,
        gain=tried(lambda: decompose(rollouts, formatted=formatted, seed=seed)),
        groups=tried(lambda: groups_of(rollouts, seed=seed)),
        difficulty=tried(lambda: difficulty(rollouts)),
        over_time=tried(lambda: _over_time(rollouts)),
        joined=None if run is None else tried(lambda: join(run, rollouts)),
        missing=tuple(dict.fromkeys(missing)),
    )


def _over_time(rollouts: Rollouts) -> RewardsOfPrompts:
    cells = cells_of(rollouts)
    steps = np.unique(cells.step)
    starts = np.array([w[0] for w in np.array_split(steps, min(_WINDOWS, len(steps)))])
    window = np.searchsorted(starts, cells.step, "right") - 1
    low, high = float(cells.mean.min()), float(cells.mean.max())
    if low == high:
        raise FitError("expected prompts whose mean rewards differ, found one value")
    edges = np.linspace(low, high, _BINS + 1)
    place = np.clip(np.searchsorted(edges, cells.mean, "right") - 1, 0, _BINS - 1)
    counts = np.bincount(window * _BINS + place, minlength=len(starts) * _BINS).reshape(-1, _BINS)
    return RewardsOfPrompts(np.r_[starts, steps[-1] + 1], edges, counts / counts.sum(axis=1, keepdims=True))
