"""`groups_of`: how much prompts differ, how many groups are of use, and what smaller ones would be.

Groups of use are those with spread: others give no gradient. For a smaller G their share is exact, as the mean over all
ways to choose G of a group's completions; a larger one cannot be measured. The noise of a row of B prompts is
s √((ρ + (1 − ρ)/G)/B) with ρ the intraclass correlation, and prompts have the share Gρ/(1 + (G − 1)ρ) of it; where the
same prompts come back at every step they are no noise, and ρ falls out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.document import ranged
from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.rollouts.cells import PromptCells, cells_of
from bayes_grpo.rollouts.passes import pass_at
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.rollouts.shares import redrawn, widened

if TYPE_CHECKING:
    import pandas as pd

SIZES = (2, 4, 8, 16, 32, 64)
"""Group sizes that are shown up to the run's own."""
_DRAWS = 2000
_REPEATED = 0.5
_TWO_VALUED = 0.9


@dataclass(frozen=True)
class GroupSize(Result):
    """Effect of a group size on the same prompts: the share of groups with spread, and the noise of a row.

    ``row_noise`` is the standard deviation of a row about its level at the run's number of completions a row, and
    ``prompts_share`` the share of that variance that is which prompts were drawn.
    """

    group_size: int
    useful: float
    row_noise: float
    prompts_share: float


@dataclass(frozen=True)
class GroupSummary(Result):
    """Groups of a run.

    Attributes:
        groups: Groups counted.
        group_size: Completions of one, G.
        icc: Intraclass correlation ρ: share of the variance of rewards at a step that lies between prompts.
        useful: Share of groups with spread, measured.
        implied: The same as the mean reward implies it, as if all prompts were equally hard; NaN where the reward is
            not 0 or 1.
        repeated: Share of the prompts of a step that the run had before.
        sizes: Group sizes up to its own, at as many completions a row.
    """

    groups: int
    group_size: int
    icc: Interval
    useful: Interval
    implied: float
    repeated: float
    sizes: tuple[GroupSize, ...]

    interval_level = LEVEL
    also_in_json = ("sentence", "interval_level")

    @property
    def sentence(self) -> str:
        """The same in words."""
        return " ".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, str]:
        """The same in words: groups of use, and what prompts explain."""
        implied = f", where the mean reward implies {self.implied:.0%}" if np.isfinite(self.implied) else ""
        useful = (
            f"{self.useful.median:.0%} [{100 * self.useful.low:.0f}, {100 * self.useful.high:.0f}] of {self.groups} "
            f"groups of {self.group_size} have reward variance ({LEVEL:.0%}){implied}."
        )
        return useful, f"Prompts explain {ranged(self.icc, '.2f')} of the reward variance."

    def to_frame(self) -> pd.DataFrame:
        """One row a group size."""
        return frame_of(self.sizes, "group_size")


def groups_of(rollouts: Rollouts, *, seed: int = 0) -> GroupSummary:
    """Groups of a run: intraclass correlation, groups of use, and what smaller sizes would make of them.

    Raises:
        FitError: No groups of at least two, or a reward that never varies.
    """
    if rollouts.group_size is None or rollouts.group_size < 2:
        raise FitError(
            f"expected groups of at least 2 completions, found none in {rollouts.name}; state group or prompt"
        )
    known = rollouts.group >= 0
    group, reward = rollouts.group[known], rollouts.reward[known]
    counts = _values(group, reward)
    n = np.bincount(group)
    size, full = rollouts.group_size, n > 1
    named = rollouts if rollouts.prompt.any() else replace(rollouts, prompt=(rollouts.group + 1).astype(np.uint64))
    cells = cells_of(named)
    prompts, cluster = np.unique(cells.prompt, return_inverse=True)
    many = len(prompts)
    useful = 1.0 - _all_equal(counts, n, size)[full]
    first = np.unique(group, return_index=True)[1]
    owner = np.searchsorted(prompts, named.prompt[known][first])[full]
    free = np.where(np.isfinite(cells.inner), cells.n - 1.0, 0.0)
    of_cells = (free * np.nan_to_num(cells.inner), free, cells.z**2, 1.0 / cells.n, np.ones(len(cluster)))
    columns = [np.bincount(cluster, x, many) for x in of_cells]
    columns = np.column_stack([*columns, np.bincount(owner, useful, many), np.bincount(owner, minlength=many)])
    drawn = redrawn(columns, _DRAWS, seed)
    rho = float(_icc(columns.sum(axis=0)))
    share = float(useful.mean())
    shares = drawn[:, -2] / np.maximum(drawn[:, -1], 1e-12)
    spread = float(np.sqrt(np.average(cells.spread**2, weights=cells.n)))
    repeated = _repeated(cells)
    batch = size * float(rollouts.prompts_per_step or 1.0)
    same = repeated > _REPEATED
    return GroupSummary(
        groups=int(full.sum()),
        group_size=size,
        icc=_interval(rho, _icc(drawn), many),
        useful=_interval(share, shares, many),
        implied=_implied(cells, reward, size),
        repeated=repeated,
        sizes=tuple(
            GroupSize(
                group_size=g,
                useful=float(1.0 - _all_equal(counts, n, g)[n >= g].mean()),
                row_noise=spread * float(np.sqrt(((0.0 if same else rho) + (1.0 - rho) / g) * g / batch)),
                prompts_share=0.0 if same else g * rho / (1.0 + (g - 1.0) * rho),
            )
            for g in sorted({*(g for g in SIZES if g <= size), size})
        ),
    )


def _implied(cells: PromptCells, reward: np.ndarray, size: int) -> float:
    """Share of groups with spread if all prompts were as hard; NaN where the reward is not mostly one of two values."""
    values, counts = np.unique(reward, return_counts=True)
    two = np.sort(np.argsort(counts)[-2:])
    if len(two) < 2 or counts[two].sum() < _TWO_VALUED * len(reward):
        return float("nan")
    p = np.clip((cells.level - values[two[0]]) / (values[two[1]] - values[two[0]]), 0.0, 1.0)
    return float(np.average(1.0 - p**size - (1.0 - p) ** size, weights=cells.n))


def _values(group: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Group and count of every value of a reward that a group has, shape (v, 2)."""
    order = np.lexsort((reward, group))
    g, r = group[order], reward[order]
    new = np.flatnonzero(np.r_[True, (np.diff(g) != 0) | (np.diff(r) != 0)])
    return np.stack([g[new], np.diff(np.r_[new, len(g)])], axis=1)


def _all_equal(counts: np.ndarray, n: np.ndarray, g: int) -> np.ndarray:
    """Probability that g of a group's completions, chosen without replacement, all have one reward; shape (groups,)."""
    group, many = counts.T
    size = n[group]
    # A group smaller than g counts whole, at its own size.
    return np.bincount(group, 1.0 - pass_at(size, size - many, np.minimum(size, g)), len(n))


def _icc(sums: np.ndarray) -> np.ndarray:
    """Intraclass correlation about the level out of sums over cells, the last axis theirs.

    They are of the squares within, their degrees of freedom, z², 1/n and 1.
    """
    inner, free, squares, inverse, cells = np.moveaxis(sums[..., :5], -1, 0)
    within = inner / np.maximum(free, 1e-12)
    between = (squares - within * inverse) / np.maximum(cells, 1e-12)
    return np.clip(between / np.maximum(between + within, 1e-12), 0.0, 1.0)


def _interval(centre: float, draws: np.ndarray, clusters: int) -> Interval:
    """Of a share, about its estimate."""
    return interval(np.clip(widened(draws, centre, clusters), 0.0, 1.0))._replace(median=centre)


def _repeated(cells: PromptCells) -> float:
    """Share of cells, after the first step, whose prompt came before."""
    first = np.unique(cells.prompt, return_index=True)[1]
    later = cells.step > cells.step[0]
    again = np.ones(len(cells.step), bool)
    again[first] = False
    return float(again[later].mean()) if later.any() else 0.0
