"""Where a reward began, where it is, and its best: numbers for sentences and for tables of many runs."""

from __future__ import annotations

from typing import NamedTuple


class RewardLevels(NamedTuple):
    """Levels of a reward, those of its path (`bayes_grpo.signals.path.SignalPath.display_levels`).

    Attributes:
        first: The first level, reward.
        last: The last one.
        best: The best one.
        best_step: Step of the last row of these.
    """

    first: float
    last: float
    best: float
    best_step: float
