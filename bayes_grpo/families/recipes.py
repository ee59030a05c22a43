"""Two recipes with a few seeds each: the distribution of the difference of their means over seeds.

A run's reading is the mean of its recipe, plus a seed effect, plus the run's own posterior error:

    reading[i] ~ N(mean of its recipe, spread² + error[i]²).

The spread's prior is log-normal, learned from public runs of one recipe (`SeedPrior`), in units of the standard
deviation of all rows; so is the width of the normal prior of the difference. Given the spread the model is normal; the
spread is integrated on a grid. One seed of each recipe is enough for an answer, which then rests on that prior.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from bayes_grpo.common.intervals import SURELY_BETTER

PATH = Path(__file__).with_name("seeds.json")
_GRID = 61
_WIDE = 10.0
"""Standard deviation of the prior of the recipes' common mean, in units of the rows': uninformative."""
FURTHER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of further seeds of each recipe that are looked at."""
_POWER = 0.8
"""Target probability that further seeds make one recipe surely better."""


class SeedPrior(NamedTuple):
    """Prior of seed and recipe effects from public runs, in standard deviations of the rows.

    Attributes:
        centre: Mean of the logarithm of the spread between seeds.
        width: Its standard deviation over recipes.
        difference: Standard deviation of the difference between two recipes.
        about: What it was learned from.
    """

    centre: float
    width: float
    difference: float
    about: dict[str, Any]

    @property
    def words(self) -> str:
        """Where the spread comes from."""
        return (
            f"prior learned from {self.about['recipes']} public recipes with {self.about['runs']} seeds: "
            f"{math.exp(self.centre):.2f} of the rows' sd, within a factor {math.exp(1.645 * self.width):.1f}"
        )


@cache
def seed_prior() -> SeedPrior:
    """The learned prior that comes with the package; `benchmarks/lab/learners/seeds.py` makes it."""
    kept = json.loads(PATH.read_text(encoding="utf-8"))
    return SeedPrior(kept["centre"], kept["width"], kept["difference"], kept["about"])


class Side(NamedTuple):
    """Readings of the runs of one recipe, and what each leaves open; shape (..., runs) each."""

    mean: np.ndarray
    error: np.ndarray


class Measure(NamedTuple):
    """What two recipes are compared by.

    Attributes:
        at: Its name: "step", "completions", "end", "plateau", "eval_reward", "gold_reward", "accuracy" or
            "rewards/NAME".
        words: The same in words.
        a: Readings of the runs of A.
        b: Those of B.
        unit: Standard deviation of all rows.
    """

    at: str
    words: str
    a: Side
    b: Side
    unit: float


@dataclass(frozen=True, eq=False)
class RecipeDifference:
    """The posterior on a grid of spreads, reward.

    Attributes:
        spread: Spreads between seeds, shape (grid,).
        weight: Their posterior, shape (..., grid).
        mean: Mean of (recipe A, B less A) at each, shape (..., grid, 2).
        cov: Their covariance, shape (..., grid, 2, 2).
    """

    spread: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    cov: np.ndarray

    @property
    def p_better(self) -> Any:
        """Probability that B's mean over seeds is higher, shape (...)."""
        return (self.weight * norm.cdf(self.mean[..., 1] / np.sqrt(self.cov[..., 1, 1]))).sum(axis=-1)

    def draws(self, size: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Draws of the spread, of A and of the difference, shape (size,) each."""
        at = rng.choice(len(self.spread), size=size, p=self.weight)
        root = np.linalg.cholesky(self.cov[at])
        both = self.mean[at] + np.einsum("dij,dj->di", root, rng.standard_normal((size, 2)))
        return {"spread": self.spread[at], "a": both[:, 0], "difference": both[:, 1]}


def difference_of(a: Side, b: Side, unit: float, prior: SeedPrior) -> RecipeDifference:
    """The difference of two recipes.

    Args:
        a: Readings of the runs of A; leading axes for many at once.
        b: Of B.
        unit: Standard deviation of all rows, reward.
        prior: What is known of seeds and recipes.
    """
    z = np.linspace(-3.0, 3.0, _GRID)
    spread = unit * np.exp(prior.centre + prior.width * z)
    centre = 0.5 * (a.mean.mean(axis=-1) + b.mean.mean(axis=-1))[..., None]
    log_prior = -0.5 * z**2
    (pa, sa, la), (pb, sb, lb) = (_summed(side, centre, spread) for side in (a, b))
    # (A, B less A): A and B about the same centre; the difference has a prior of its own.
    before = np.diag([(_WIDE * unit) ** -2.0, (prior.difference * unit) ** -2.0])
    precision = np.empty((*pa.shape, 2, 2))
    precision[..., 0, 0], precision[..., 1, 1] = pa + pb + before[0, 0], pb + before[1, 1]
    precision[..., 0, 1] = precision[..., 1, 0] = pb
    pull = np.stack([sa + sb, sb], axis=-1)
    cov = np.linalg.inv(precision)
    mean = np.einsum("...ij,...j->...i", cov, pull)
    fit = la + lb + 0.5 * np.einsum("...i,...i", pull, mean) + 0.5 * np.linalg.slogdet(cov)[1]
    weight = np.exp(log_prior + fit - (log_prior + fit).max(axis=-1, keepdims=True))
    mean[..., 0] += centre
    return RecipeDifference(spread, weight / weight.sum(axis=-1, keepdims=True), mean, cov)


def _summed(side: Side, centre: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, pull and log density at each spread, shape (..., grid)."""
    var = spread[:, None] ** 2 + side.error[..., None, :] ** 2
    away = side.mean[..., None, :] - centre[..., None]
    return (
        (1.0 / var).sum(axis=-1),
        (away / var).sum(axis=-1),
        -0.5 * (away**2 / var + np.log(var)).sum(axis=-1),
    )


def further_seeds(a: Side, b: Side, unit: float, prior: SeedPrior, rng: np.random.Generator) -> int | None:
    """Further seeds of each recipe after which one of them is probably called better.

    Further runs are drawn from the posterior with the errors of the present ones, and the comparison is repeated.

    Args:
        a: Readings of the runs of A.
        b: Of B.
        unit: Standard deviation of all rows.
        prior: What is known of seeds and recipes.
        rng: Randomness.

    Returns:
        The smallest of `FURTHER` that tells with probability `_POWER`; None where none does.
    """
    size = 300
    draws = difference_of(a, b, unit, prior).draws(size, rng)
    error = float(np.sqrt(np.mean(np.concatenate([a.error, b.error]) ** 2)))
    noise = rng.standard_normal((2, size, FURTHER[-1])) * np.sqrt(draws["spread"] ** 2 + error**2)[:, None]
    for count in FURTHER:

        def more(side: Side, level: np.ndarray, own: np.ndarray, count: int = count) -> Side:
            new = level[:, None] + own[:, :count]
            mean = np.concatenate([np.broadcast_to(side.mean, (size, len(side.mean))), new], axis=1)
            return Side(mean, np.concatenate([np.broadcast_to(side.error, mean[:, :-count].shape), new * 0 + error], 1))

        both = more(a, draws["a"], noise[0]), more(b, draws["a"] + draws["difference"], noise[1])
        p = difference_of(*both, unit, prior).p_better
        if np.mean((p >= SURELY_BETTER) | (p <= 1.0 - SURELY_BETTER)) >= _POWER:
            return count
    return None


def sides(readings: Sequence[np.ndarray]) -> Side:
    """Middle and spread of the draws of each run; quantiles, because where a curve settles may have long tails."""
    q = np.quantile(np.stack(readings), [0.16, 0.5, 0.84], axis=1)
    return Side(q[1], 0.5 * (q[2] - q[0]))
