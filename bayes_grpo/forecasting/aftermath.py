"""What a forecast makes of a reward that has fallen: laws are held within what fallen runs of others regained.

    regained = (reward ahead - reward now) / (reward at its best - reward now)

A law that describes how a reward rose says nothing of a policy that has lost it, and some run away after a collapse.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayes_grpo.events.fallen import Fallen, fallen_of
from bayes_grpo.events.smoothing import fit_trend
from bayes_grpo.events.trend import span_of
from bayes_grpo.logs.run import Setting
from bayes_grpo.rows.reward_range import both_ends
from bayes_grpo.rows.table import RowTable

REGAINED = (-0.6, 1.5)
"""What a share that is regained is held within; about nine in ten cases of public logs lie there."""


def held(fallen: Fallen, paths: np.ndarray) -> np.ndarray:
    """Paths of laws held within what fallen runs regain, of the same shape."""
    low, high = (fallen.now + share * (fallen.best - fallen.now) for share in REGAINED)
    return np.clip(paths, low, high)


def fallen_in(table: RowTable, settings: Mapping[str, Setting]) -> Fallen | None:
    """What the reward of a log has lost at its last row, as its diagnosis sees it; None where it has not.

    Args:
        table: Rows of the log.
        settings: Settings of the run.
    """
    trend = fit_trend(table.step, table.y, seed=1)
    if trend is None:
        return None
    ends = both_ends(table, settings)
    if ends.known:
        return fallen_of(trend, ends.high - ends.low, ends.low)
    return fallen_of(trend, span_of(trend.value))
