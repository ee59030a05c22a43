"""The range of a reward: as set, or taken to be [0, 1] where all rows lie in it.

A range cuts off the prior of a regime's fixed point, so it changes the evidence: by the share of the posterior
that lies inside over that of the prior. Where it is only probable, Bayes' rule weighs it against no range at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayes_grpo.logs.settings import Setting
from bayes_grpo.rows.series import is_share

ASSUMED_SHARE = 0.9
"""Probability that a reward stays in [0, 1] which has done so until now, without a setting: among 14
repositories with public logs of such rewards, one had runs that left it."""


class RewardRange(NamedTuple):
    """Where the reward can lie.

    Attributes:
        low: Smallest possible reward; minus infinity where unknown.
        high: Largest possible reward; infinity where unknown.
        share: Probability that this holds, before a regime is fitted.
        assumed: What was taken for granted, a sentence; "" where it was set or is unknown.
    """

    low: float = -math.inf
    high: float = math.inf
    share: float = 1.0
    assumed: str = ""

    @property
    def bounded(self) -> bool:
        """True where the range has an end."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    @property
    def sentence(self) -> str:
        """The ends in words."""
        ends = ("at least", self.low), ("at most", self.high)
        return " and ".join(f"{word} {end:g}" for word, end in ends if math.isfinite(end))


def span_of(rows: np.ndarray) -> float:
    """Range of a reward by its rows alone, shape (n,)."""
    return max(float(np.ptp(rows)), 0.5 * float(np.abs(rows).max()), 1e-12)


def reward_range(values: np.ndarray, settings: Mapping[str, Setting]) -> RewardRange:
    """Range of the reward as far as log, configuration or user state it, or as the logged rewards suggest.

    With one end alone where only that is set.
    """
    low, high = settings["reward_low"].explicit, settings["reward_high"].explicit
    if low is None and high is None:
        if not is_share(values):
            return RewardRange()
        chance = f"with probability {ASSUMED_SHARE:g} (--set reward_high=…)"
        return RewardRange(0.0, 1.0, ASSUMED_SHARE, f"reward: stays in [0, 1], as all of its rows do, {chance}")
    return RewardRange(-math.inf if low is None else float(low), math.inf if high is None else float(high))


def both_ends(values: np.ndarray, settings: Mapping[str, Setting]) -> RewardRange:
    """Range of the reward with both ends or none, as it takes to call a level high or low.

    An end that is set always holds. The other one is guessed where all rows lie in [0, 1]: 0 below a highest reward,
    1 above a lowest one. A highest reward of 3 says that rewards are summed, not that one is below 0; one of 1 with
    rows in [0, 1] is a share. Where rows lie elsewhere, one end alone says nothing of levels.
    """
    low, high = settings["reward_low"].explicit, settings["reward_high"].explicit
    if low is not None and high is not None:
        return RewardRange(float(low), float(high))
    ends = (0.0 if low is None else float(low), 1.0 if high is None else float(high))
    if not is_share(values) or ends[0] >= ends[1]:
        return RewardRange()
    if low is None and high is None:
        guess = "that is taken for their range (--set reward_low, reward_high)"
    elif low is None:
        guess = "0 is taken for the lowest (--set reward_low)"
    else:
        guess = "1 is taken for the highest (--set reward_high)"
    return RewardRange(*ends, ASSUMED_SHARE, f"rewards all lie in [0, 1], so {guess}")
