"""Entropy: spent before the reward is earned, or gone to a uniform policy's."""

from __future__ import annotations

import numpy as np

from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, TRUTH
from bayes_grpo.events.definition import Definition
from bayes_grpo.events.growth import grew
from bayes_grpo.events.trend import LatentSignals, Trend

_B = BORDERS
SPENT = Definition(
    "spent",
    DIAGNOSIS,
    "policy_concentration",
    f"less than {_B.spent:.0%} of the starting entropy is left and more than {_B.short:.0%} of the reward's range not "
    "reached; without a known range, the reward has not grown",
)
SPENT_TRULY = Definition(
    "policy_concentration",
    TRUTH,
    "",
    f"less than {_B.spent_truth:.0%} of the starting entropy is left and the deserved reward more than "
    f"{_B.short_truth:.0%} below what is attainable",
)
EXPLODED = Definition(
    "entropy_explosion",
    TRUTH,
    "",
    f"the entropy went {_B.exploded:.0%} of the way to a uniform policy's, {_B.exploded_least:.0%} of it at least, is "
    f"above {_B.exploded_level:.0%} of it, and the gold reward below {_B.exploded_lost:.0%} of its best or below "
    f"{_B.hopeless:g}",
)


def spent(signals: LatentSignals) -> np.ndarray:
    """Draws of whether the entropy was spent before the reward was earned, shape (draws,)."""
    reward, left = signals.reward, factor(signals.signals["entropy"])
    if signals.has_range:
        return spent_early(left, 1.0, 1.0 - signals.share(reward.draws[:, -1]), BORDERS.spent, BORDERS.short)
    # Without the reward's range only a reward that did not gain can be called poor.
    return (left < BORDERS.spent) & ~grew(reward)


def spent_along(signals: LatentSignals) -> np.ndarray:
    """Draws of whether the entropy is spent at each row of the reward before that is earned, shape (draws, n)."""
    reward, entropy = signals.reward, signals.signals["entropy"]
    left = entropy.at(reward.step) - entropy.draws[:, :1]
    if signals.has_range:
        return spent_early(np.exp(left), 1.0, 1.0 - signals.share(reward.draws), BORDERS.spent, BORDERS.short)
    gained = reward.draws - reward.draws[:, :1] > BORDERS.noise_of_growth * reward.noise_sd
    return (left < np.log(BORDERS.spent)) & ~gained


def spent_early(entropy: np.ndarray, start: float, missing: np.ndarray, least: float, short: float) -> np.ndarray:
    """Whether little entropy is left while much of the reward is missing.

    Args:
        entropy: What is left, any shape.
        start: What there was at the start, in the same unit.
        missing: Share of the reward's range not reached, shaped like the entropy.
        least: Share of the start below which little is left.
        short: Share of the range above which much is missing.
    """
    return (entropy < least * start) & (missing > short)


def factor(log_trend: Trend) -> np.ndarray:
    """Draws of a signal's end over its start, from the trend of its logarithm, shape (draws,)."""
    return np.exp(np.clip(log_trend.change(), -BORDERS.most_e_folds, BORDERS.most_e_folds))


def exploded(entropy: np.ndarray, uniform: float, gold: np.ndarray, start: float) -> np.ndarray:
    """Whether the entropy of a run of the laboratory exploded, at every step, shape (T,).

    Args:
        entropy: In nats, shape (T,).
        uniform: That of a uniform policy, nats.
        gold: Gold reward, shape (T,).
        start: Gold reward at the start.
    """
    best = np.maximum(np.maximum.accumulate(gold), start)
    went = np.maximum(BORDERS.exploded * (uniform - entropy[0]), BORDERS.exploded_least * uniform)
    harmed = gold < np.maximum(BORDERS.exploded_lost * best, BORDERS.hopeless)
    return (entropy - entropy[0] > went) & (entropy > BORDERS.exploded_level * uniform) & harmed
