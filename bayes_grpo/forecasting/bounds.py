"""What a range of the reward does to a law that was fitted without one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.reward_range import RewardRange


class Bounded(NamedTuple):
    """What a range does to a law; nothing by default.

    Attributes:
        share: Probability that the range holds, given the rows.
        log_factor: Log of what it multiplies the law's marginal likelihood by.
    """

    share: float = 0.0
    log_factor: float = 0.0


def bounded(reward: RewardRange, prior: Prior, fixed_point: np.ndarray) -> Bounded:
    """What a range does to a law that was fitted without one.

    Args:
        reward: The range.
        prior: Prior of the fixed point.
        fixed_point: Its posterior draws, shape (n,).

    Returns:
        The probability of the range, and the factor of the marginal likelihood.
    """
    if not reward.known:
        return Bounded()
    low, high = ((end - prior.median) / (prior.spread * math.sqrt(2.0)) for end in (reward.low, reward.high))
    before = 0.5 * (math.erf(high) - math.erf(low))
    inside = np.count_nonzero((fixed_point >= reward.low) & (fixed_point <= reward.high))
    ratio = (inside + 0.5) / (len(fixed_point) + 1.0) / max(before, 1e-12)
    factor = reward.share * ratio + 1.0 - reward.share
    return Bounded(reward.share * ratio / factor, math.log(factor))
