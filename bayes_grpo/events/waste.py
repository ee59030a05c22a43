"""Wasted: groups whose rewards are all the same, which have no advantage and so no gradient."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, TRUTH
from bayes_grpo.events.definition import Definition
from bayes_grpo.events.trend import TREND_DRAWS

_B = BORDERS
WASTED = Definition(
    "wasted",
    DIAGNOSIS,
    "advantage_degeneracy",
    f"over the second half more than {_B.wasted:.0%} of the groups have no spread, or {_B.dead:.0%} of the rows none "
    f"at all, and the task is not solved (below {_B.solved:.0%} of the range); if it is, groups count that lie "
    f"{_B.excess:.0%} beyond what level and group size imply",
)
TOO_HARD = Definition(
    "too_hard",
    TRUTH,
    "",
    f"more than {_B.wasted_truth:.0%} of the groups have no spread, and the deserved reward was never above "
    f"{_B.hopeless:.0%} of what is attainable",
)
SOLVED = Definition(
    "solved",
    TRUTH,
    "",
    f"more than {_B.wasted_truth:.0%} of the groups have no spread, and the deserved reward is above "
    f"{_B.solved_truth:.0%} of what is attainable, where the run has not climbed there by {_B.learned:.0%} itself",
)


class Waste(NamedTuple):
    """What tells of wasted groups: draws of shape (draws,), or None where the log cannot say.

    Attributes:
        share: Share of groups without spread, over the second half.
        excess: That share less what level and group size imply.
        dead: Which rows of the second half have no spread at all, shape (rows,) or None.
        level: Where the reward stands in its range over the second half.
    """

    share: np.ndarray | None
    excess: np.ndarray | None
    dead: np.ndarray | None
    level: np.ndarray | None


def wasted(waste: Waste) -> np.ndarray | None:
    """Draws of whether groups are wasted, shape (draws,); None where no signal tells.

    A solved task wastes its batch and is no failure: the reward's level explains its groups.
    """
    found = []
    unsolved = True if waste.level is None else waste.level < BORDERS.solved
    if waste.share is not None:
        unexplained = True if waste.excess is None else waste.excess > BORDERS.excess
        found.append((waste.share > BORDERS.wasted) & (unexplained | unsolved))
    if waste.dead is not None:
        found.append((dead_share(waste.dead) > BORDERS.dead) & unsolved)
    return np.any(found, axis=0) if found else None


def dead_share(dead: np.ndarray) -> np.ndarray:
    """Draws of the share of rows without spread, given which of them had none, shape (draws,); Jeffreys' prior."""
    count = int(dead.sum())
    return np.random.default_rng(0).beta(0.5 + count, 0.5 + len(dead) - count, TREND_DRAWS)


def waste_log_odds(waste: Waste) -> float:
    """How far `wasted` lies beyond its borders at the posterior means, ½ log odds; NaN where no signal tells."""
    found, certain = [], BORDERS.layer_bound
    unsolved = certain
    if waste.level is not None:
        unsolved = BORDERS.slope_unsolved * (BORDERS.solved - float(waste.level.mean()))
    if waste.share is not None:
        share, unexplained = float(waste.share.mean()), certain
        if waste.excess is not None:
            excess = float(waste.excess.mean())
            unexplained = BORDERS.slope_excess * (excess - BORDERS.excess)
            if unsolved > 0.0:  # near the top hardly any spread is implied, and a share of it is noise
                lacking = excess / max(1.0 - share + excess, BORDERS.least_spread)
                unexplained = max(unexplained, BORDERS.slope_lacking * (lacking - BORDERS.lacking))
        found.append(min(BORDERS.slope_share * (share - BORDERS.wasted), max(unexplained, unsolved)))
    if waste.dead is not None:
        found.append(min(BORDERS.slope_dead * (float(waste.dead.mean()) - BORDERS.dead), unsolved))
    return float(np.clip(max(found), -BORDERS.log_odds_bound, certain)) if found else np.nan


def too_hard(flat: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Whether a run of the laboratory has nothing to learn from, at every step, shape (T,).

    Args:
        flat: Share of groups without spread, shape (T,).
        best: Best deserved reward so far, as a share of what is attainable, shape (T,).
    """
    return (flat > BORDERS.wasted_truth) & (best < BORDERS.hopeless)


def solved(flat: np.ndarray, reward: np.ndarray, start: float) -> np.ndarray:
    """Whether the task was solved before a run of the laboratory began, at every step, shape (T,).

    Args:
        flat: Share of groups without spread, shape (T,).
        reward: Deserved reward, as a share of what is attainable, shape (T,).
        start: The same at the start.
    """
    high = reward > BORDERS.solved_truth
    return (flat > BORDERS.wasted_truth) & high & (reward - start < BORDERS.learned)
