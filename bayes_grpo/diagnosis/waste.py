"""Groups without spread as an event. Borders are those of `events`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.events import DEAD, EXCESS, LACKING, SOLVED, WASTE
from bayes_grpo.diagnosis.trend import DRAWS


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
    unsolved = True if waste.level is None else waste.level < SOLVED
    if waste.share is not None:
        unexplained = True if waste.excess is None else waste.excess > EXCESS
        found.append((waste.share > WASTE) & (unexplained | unsolved))
    if waste.dead is not None:
        found.append((dead_share(waste.dead) > DEAD) & unsolved)
    return np.any(found, axis=0) if found else None


def dead_share(dead: np.ndarray) -> np.ndarray:
    """Draws of the share of rows without spread, given which of them had none, shape (draws,)."""
    count = int(dead.sum())
    return np.random.default_rng(0).beta(0.5 + count, 0.5 + len(dead) - count, DRAWS)


def wasted_by(waste: Waste) -> float:
    """How far `wasted` lies beyond its borders at the posterior means, within [-2, 3]; NaN where no signal tells."""
    found = []
    unsolved = 3.0 if waste.level is None else 6.0 * (SOLVED - float(waste.level.mean()))
    if waste.share is not None:
        share, unexplained = float(waste.share.mean()), 3.0
        if waste.excess is not None:
            excess = float(waste.excess.mean())
            unexplained = 8.0 * (excess - EXCESS)
            if unsolved > 0.0:  # near the top hardly any spread is implied, and a share of it is noise
                unexplained = max(unexplained, 6.0 * (excess / max(1.0 - share + excess, 1e-3) - LACKING))
        found.append(min(6.0 * (share - WASTE), max(unexplained, unsolved)))
    if waste.dead is not None:
        found.append(min(5.0 * (float(waste.dead.mean()) - DEAD), unsolved))
    return float(np.clip(max(found), -2.0, 3.0)) if found else np.nan
