"""Shares of a change: by factors, whatever the order of changing them; and sums over resampled clusters.

    R = f (t q + (1 − t) u) + (1 − f) c

with f = P(finished), t = P(formatted | finished), q the mean reward of formatted answers, u and c that of unformatted
and of cut ones. The share of a factor is its Shapley value: the mean, over all orders in which the factors can be moved
from their first to their last value, of what moving this one changes (Shapley 1953). The shares add up to the change.

Intervals are over clusters (prompts), by the Bayesian bootstrap: each gets an exponential weight (Rubin 1981). A mean
has (n − 1)/(n + 1) of its variance under such weights of n clusters, and of few clusters the spread itself is hardly
known: draws are spread out by as much.
"""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, t

from bayes_grpo.common.intervals import LEVEL

_PIECE = 2048


class Factors(NamedTuple):
    """Factors of a mean reward; arrays of one shape.

    P(finished), P(formatted | finished), and the mean rewards of what is both, of what finished unformatted, of what is
    cut.
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


_FIELDS = {
    "finished": ("finished",),
    "formatted": ("formatted",),
    "quality": ("quality",),
    "others": ("unformatted", "cut"),
}
"""Name of a joint change → its factors; "others" is that of the unformatted and the cut."""


class FactorSums(NamedTuple):
    """Sums over completions, one a cluster or draw: all, finished, of these formatted; reward of good, plain, cut."""

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


def shapley(first: Factors, last: Factors) -> dict[str, np.ndarray]:
    """Change of the mean reward by each of `_FIELDS` between two values of shapes that broadcast."""

    def reward(moved: tuple[str, ...]) -> np.ndarray:
        fields = [field for player in moved for field in _FIELDS[player]]
        return first._replace(**{field: getattr(last, field) for field in fields}).reward

    n = len(_FIELDS)
    changes = {}
    for player in _FIELDS:
        rest = [other for other in _FIELDS if other != player]
        changes[player] = np.sum(
            [
                factorial(size) * factorial(n - 1 - size) / factorial(n) * (reward((*moved, player)) - reward(moved))
                for size in range(n)
                for moved in combinations(rest, size)
            ],
            axis=0,
        )
    return changes


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b > 1e-9, a / np.maximum(b, 1e-9), 0.0)


def redrawn(columns: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Weighted sums, shape (draws, k), of what each cluster adds, shape (n, k), in pieces for the memory's sake."""
    rng = np.random.default_rng(seed)
    out = np.zeros((draws, columns.shape[1]))
    for start in range(0, len(columns), _PIECE):
        some = columns[start : start + _PIECE]
        out += rng.standard_exponential((draws, len(some))) @ some
    return out


def widened(drawn: np.ndarray, centre: np.ndarray | float, clusters: int) -> np.ndarray:
    """Draws, the first axis theirs, about an estimate as far as so few clusters allow."""
    if clusters < 2:
        return drawn
    tail = 0.5 + LEVEL / 2.0
    wider = float(t.ppf(tail, clusters - 1) / norm.ppf(tail) * np.sqrt((clusters + 1.0) / (clusters - 1.0)))
    return centre + wider * (drawn - centre)
