"""Shares of a change: which factor of a product of probabilities moved it, whatever the order of changing them.

    R = f (t q + (1 − t) u) + (1 − f) c

with f = P(finished), t = P(formatted | finished), q the mean reward of formatted answers, u and c that of unformatted
and of cut ones. The share of a factor is its Shapley value: the mean, over all orders in which the factors can be moved
from their first to their last value, of what moving this one changes (Shapley 1953). The shares add up to the change.
"""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import NamedTuple

import numpy as np


class Factors(NamedTuple):
    """What a mean reward is made of; arrays of one shape.

    Attributes:
        finished: P(finished).
        formatted: P(formatted | finished).
        quality: Mean reward of those that finished and are formatted.
        unformatted: Mean reward of those that finished and are not.
        cut: Mean reward of those that did not finish.
    """

    finished: np.ndarray
    formatted: np.ndarray
    quality: np.ndarray
    unformatted: np.ndarray
    cut: np.ndarray

    @property
    def reward(self) -> np.ndarray:
        """The mean reward."""
        inner = self.formatted * self.quality + (1.0 - self.formatted) * self.unformatted
        return self.finished * inner + (1.0 - self.finished) * self.cut

    @property
    def others(self) -> np.ndarray:
        """Mean reward of what did not finish or is not formatted."""
        plain = self.finished * (1.0 - self.formatted)
        some = plain + 1.0 - self.finished
        return (plain * self.unformatted + (1.0 - self.finished) * self.cut) / np.maximum(some, 1e-12)


class Changes(NamedTuple):
    """What each factor changed of a mean reward; `others` is what the unformatted and the cut got."""

    finished: np.ndarray
    formatted: np.ndarray
    quality: np.ndarray
    others: np.ndarray


_FIELDS = {
    "finished": ("finished",),
    "formatted": ("formatted",),
    "quality": ("quality",),
    "others": ("unformatted", "cut"),
}
"""What is moved as one → the factors that it is."""


class Sums(NamedTuple):
    """Sums over completions, one a cluster or a draw.

    Attributes:
        all: Completions.
        finished: Of these, finished.
        good: Of these, formatted.
        reward_good: Reward of the finished and formatted.
        reward_plain: Reward of the finished and unformatted.
        reward_cut: Reward of the cut.
    """

    all: np.ndarray
    finished: np.ndarray
    good: np.ndarray
    reward_good: np.ndarray
    reward_plain: np.ndarray
    reward_cut: np.ndarray

    @property
    def factors(self) -> Factors:
        """The factors that they give; what has no completions counts as what gives no reward."""
        plain = self.finished - self.good
        return Factors(
            _over(self.finished, self.all),
            _over(self.good, self.finished),
            _over(self.reward_good, self.good),
            _over(self.reward_plain, plain),
            _over(self.reward_cut, self.all - self.finished),
        )


def sums_of(reward: np.ndarray, finished: np.ndarray, formatted: np.ndarray, cluster: np.ndarray, n: int) -> Sums:
    """Sums over the completions of every cluster.

    Args:
        reward: Shape (m,).
        finished: 0 or 1, shape (m,).
        formatted: 0 or 1, shape (m,).
        cluster: Number of the cluster, in [0, n), shape (m,).
        n: Clusters.
    """
    good = finished * formatted

    def total(x: np.ndarray) -> np.ndarray:
        return np.bincount(cluster, x, n)

    return Sums(
        total(np.ones(len(reward))),
        total(finished),
        total(good),
        total(reward * good),
        total(reward * (finished - good)),
        total(reward * (1.0 - finished)),
    )


def shapley(first: Factors, last: Factors) -> Changes:
    """What each factor changed of the mean reward.

    Args:
        first: The factors before.
        last: The factors after, of shapes that broadcast with those before.
    """
    players = tuple(_FIELDS.items())
    value = {}
    for size in range(len(players) + 1):
        for moved in combinations(range(len(players)), size):
            names = {name for i in moved for name in players[i][1]}
            value[moved] = Factors(
                **{name: getattr(last if name in names else first, name) for name in Factors._fields}
            ).reward
    changes = {}
    for place, (player, _) in enumerate(players):
        rest = [i for i in range(len(players)) if i != place]
        total = np.zeros(1)
        for size in range(len(rest) + 1):
            share = factorial(size) * factorial(len(rest) - size) / factorial(len(players))
            for moved in combinations(rest, size):
                total = total + share * (value[tuple(sorted((*moved, place)))] - value[moved])
        changes[player] = total
    return Changes(**changes)


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b > 1e-9, a / np.maximum(b, 1e-9), 0.0)
