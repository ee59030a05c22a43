"""What an event that no law of the reward knows (`bayes_grpo.forecasting.spans`) does to paths of the rows to come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.forecasting.spans import SIGN, Span
from bayes_grpo.rows.reward_range import RewardRange


class RewardPaths(NamedTuple):
    """Paths over the same rows, shape (draws, rows) each.

    Attributes:
        latent: Latent reward.
        trend: What is expected of it from the same present state.
        rows: What logged rows would show.
    """

    latent: np.ndarray
    trend: np.ndarray
    rows: np.ndarray


class Met(NamedTuple):
    """Paths of which some meet an event.

    Attributes:
        paths: The paths; those without an event as they were.
        event: Name of the event of each draw, "" without one, shape (draws,).
        settles: Where each draw with an event settles, NaN for the others, shape (draws,).
    """

    paths: RewardPaths
    event: np.ndarray
    settles: np.ndarray


def with_events(
    paths: RewardPaths,
    now: np.ndarray,
    possible: np.ndarray,
    chance: Mapping[str, float],
    spans: Mapping[str, Span],
    sizes: Mapping[str, np.ndarray],
    *,
    reward: RewardRange,
    seed: int,
) -> Met:
    """Paths of which as many meet an event as it is probable.

    From a row that is drawn evenly from the possible ones on, a path leaves its trend and is, `THRESHOLDS.settled` rows
    later, about the level that the event leads to. What the path had of noise about its trend stays with it.

    Args:
        paths: Paths of the rows to come.
        now: Latent reward of each draw at the last logged row, shape (draws,).
        possible: Rows at which an event may begin: those until the horizon with a learning rate above 0, shape (k,).
        chance: Event → probability that one begins there; their sum is at most 1.
        spans: Event → how far it can lead.
        sizes: Event → quantiles of its size at evenly spaced probabilities from 0 to 1.
        reward: Paths with an event are held inside this range.
        seed: Seed.
    """
    draws, horizon = paths.latent.shape
    rng = np.random.default_rng(seed)
    order = rng.permutation(draws)
    event, settles = np.full(draws, "", dtype="U16"), np.full(draws, np.nan)
    latent, trend, rows = (x.copy() for x in paths)
    taken = 0.0
    for name, probability in chance.items():
        # Cumulated before rounding, so that no event's count takes from another's.
        chosen = order[round(taken * draws) : round((taken + probability) * draws)]
        taken += probability
        if not len(possible) or not len(chosen):
            continue
        even = (rng.permutation(len(chosen)) + 0.5) / len(chosen)
        size = np.interp(even, np.linspace(0.0, 1.0, len(sizes[name])), sizes[name])
        to = np.clip(now[chosen] + SIGN[name] * spans[name].change(size), reward.low, reward.high)
        begins = rng.choice(possible, len(chosen))
        w = np.clip((np.arange(horizon) - begins[:, None] + 1) / THRESHOLDS.settled, 0.0, 1.0)
        before = trend[chosen]
        shift = np.where(w > 0.0, w * (to[:, None] - before), 0.0)
        for x in (trend, latent, rows):
            moved = np.clip(x[chosen] + shift, reward.low, reward.high)
            x[chosen] = np.where(w > 0.0, moved, x[chosen])
        event[chosen], settles[chosen] = name, to
    return Met(RewardPaths(latent, trend, rows), event, settles)
