"""The range of a reward: as stated, or taken to be [0, 1] where all rows lie in it.

A range cuts off the prior of a law's fixed point, so it changes what the law is worth: by the share of the posterior
that lies inside over that of the prior. Where it is only probable, Bayes' rule weighs it against no range at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from bayes_grpo.logs.run import Provenance, Setting
from bayes_grpo.rows.table import RowTable

ASSUMED_SHARE = 0.9
"""Probability that a reward stays in [0, 1] which has done so until now and of which nobody said more: among 14
repositories with public logs of such rewards, one had runs that left it."""


class RewardRange(NamedTuple):
    """Where the reward can lie.

    Attributes:
        low: Smallest possible reward; minus infinity where unknown.
        high: Largest possible reward; infinity where unknown.
        share: Probability that this holds, before a law is fitted.
        assumed: What was taken for granted, a sentence; "" where it was stated or is unknown.
    """

    low: float = -math.inf
    high: float = math.inf
    share: float = 1.0
    assumed: str = ""

    @property
    def known(self) -> bool:
        """Whether it has an end."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    @property
    def sentence(self) -> str:
        """The ends in words."""
        ends = [f"at least {self.low:g}"] * math.isfinite(self.low) + [f"at most {self.high:g}"] * math.isfinite(
            self.high
        )
        return " and ".join(ends)


def reward_range(table: RowTable, settings: Mapping[str, Setting]) -> RewardRange:
    """Range of the reward as far as log, configuration or user state it, or as its rows suggest.

    Args:
        table: Rows of the log so far.
        settings: Settings of the run.

    Returns:
        The range.
    """
    low, high = (
        None if s.provenance is Provenance.ASSUMED else s.value
        for s in (settings["reward_low"], settings["reward_high"])
    )
    if low is None and high is None:
        if not table.is_share:
            return RewardRange()
        return RewardRange(
            0.0,
            1.0,
            ASSUMED_SHARE,
            f"reward: stays in [0, 1], as all of its rows do, with probability {ASSUMED_SHARE:g} (--set reward_high=…)",
        )
    return RewardRange(-math.inf if low is None else float(low), math.inf if high is None else float(high))
