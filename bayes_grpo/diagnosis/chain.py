"""A mode over time: a chain of two states, off and on, that what a log shows at each row of its trend speaks for.

    log P(z | x) = Σ_t u_t z_t + log P(z_0) + Σ_t log P(z_t | z_{t-1}) - log Z
    u_t = min(FULL_ROWS / n, 1) (a + w·x_t + b)

z_t is 1 while the mode is under way at row t of n, x_t what speaks for it there (`Mode.course`), and FULL_ROWS / n
makes a log of many rows no surer than one of `FULL_ROWS`, because the rows of a trend say much the same. The chance to
begin and to end is a rate per run, so that it does not depend on n. b is what an author's runs have in common; its
spread is learned and its value is not known for a log that was never seen, so that it widens the answer. Where the
signal that would show the mode is not logged, a is another number and x is left out: what is then said is how often the
mode is under way in such logs. A linear-chain conditional random field: Lafferty, McCallum and Pereira (2001), ICML;
forward filtering, backward sampling: Frühwirth-Schnatter (1994), https://doi.org/10.1111/j.1467-9892.1994.tb00184.x.
`benchmarks/lab/learners/episodes.py` learns the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

FULL_ROWS = 12
"""Rows of a log that all count in full."""
CHAIN_DRAWS = 1000
"""Draws of the numbers, and with each one history."""
FIXED = ("seen", "unseen", "begins", "ends", "start", "spread")
"""Numbers beside the weights: a where the signal is logged and where it is not, log rates, log odds at the first row,
log standard deviation of b."""


class Chances(NamedTuple):
    """A mode over the rows of a trend.

    Attributes:
        probability: That it is under way at each row, given all rows, shape (n,).
        histories: Draws of whether it is, shape (draws, n), bool.
        seen: Whether a signal that shows it is logged.
    """

    probability: np.ndarray
    histories: np.ndarray
    seen: bool


@dataclass(frozen=True, eq=False)
class ModeChain:
    """The learned numbers of one mode: a normal approximation of their posterior.

    Attributes:
        predictors: Names of the columns of x.
        mean: The weights, then `FIXED`, shape (d,).
        covariance: Shape (d, d).
        learned_from: How many runs and episodes.
    """

    predictors: tuple[str, ...]
    mean: np.ndarray
    covariance: np.ndarray
    learned_from: Mapping[str, Any]

    def chances(self, course: np.ndarray, shift: float = 0.0, seed: int = 0) -> Chances:
        """The mode over the rows of a log.

        Args:
            course: What speaks for it, shape (n, predictors); NaN as `Mode.course` has it.
            shift: Added to the log odds that it is under way at the last row: a prior that somebody states, over the
                usual one.
            seed: Seed of the draws.
        """
        n, k = course.shape
        rng = np.random.default_rng(seed)
        numbers = rng.multivariate_normal(self.mean, self.covariance, CHAIN_DRAWS, method="cholesky")
        author = np.exp(numbers[:, k + 5]) * rng.standard_normal(CHAIN_DRAWS)
        seen = bool(np.isfinite(course[:, 0]).any())
        unary = (row_scores(numbers, course, seen) + author[:, None]) * min(FULL_ROWS / n, 1.0)
        unary[:, -1] += shift
        on, off = (-np.expm1(-np.exp(numbers[:, k + i]) / max(n - 1, 1)) for i in (2, 3))
        probability, histories = _passes(unary, on, off, numbers[:, k + 4], rng)
        if shift:  # the numbers, too, are likelier that agree with the prior
            last = probability[:, -1]
            weight = 1.0 / (1.0 - last + last * np.exp(-shift))
            histories = histories[rng.choice(CHAIN_DRAWS, CHAIN_DRAWS, p=weight / weight.sum())]
            return Chances(np.average(probability, axis=0, weights=weight), histories, seen)
        return Chances(probability.mean(axis=0), histories, seen)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content."""
        names = (*self.predictors, *FIXED)
        return {
            "mean": dict(zip(names, self.mean.tolist(), strict=True)),
            "covariance": self.covariance.tolist(),
            "learned from": dict(self.learned_from),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ModeChain:
        """The inverse of `to_dict`."""
        names = tuple(content["mean"])
        return cls(
            names[: -len(FIXED)],
            np.array(list(content["mean"].values())),
            np.array(content["covariance"]),
            content["learned from"],
        )


def row_scores(numbers: np.ndarray, course: np.ndarray, seen: bool) -> np.ndarray:
    """The score a + w·x at each row without the author's part, shape (draws, n).

    Args:
        numbers: Weights and `FIXED`, shape (draws, d).
        course: Shape (n, predictors); what is not logged adds nothing.
        seen: Whether the signal that shows the mode is logged.
    """
    k = course.shape[1]
    if not seen:
        return np.repeat(numbers[:, k + 1, None], len(course), axis=1)
    return numbers[:, k, None] + numbers[:, :k] @ np.nan_to_num(course).T


def _passes(
    unary: np.ndarray, on: np.ndarray, off: np.ndarray, start: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Forward filtering, backward smoothing and sampling of many chains at once, shape (draws, n) both.

    Args:
        unary: What speaks for state 1, shape (draws, n).
        on: Chance to begin from row to row, shape (draws,).
        off: Chance to end, likewise.
        start: Log odds at the first row, likewise.
        rng: Of the histories.
    """
    n = unary.shape[1]
    filtered, ahead = np.empty_like(unary), np.empty_like(unary)
    for t in range(n):
        ahead[:, t] = expit(start) if t == 0 else (1.0 - filtered[:, t - 1]) * on + filtered[:, t - 1] * (1.0 - off)
        odds = np.log(np.maximum(ahead[:, t], 1e-300)) - np.log(np.maximum(1.0 - ahead[:, t], 1e-300)) + unary[:, t]
        filtered[:, t] = expit(odds)
    smoothed, states = np.empty_like(unary), np.empty(unary.shape, bool)
    smoothed[:, -1] = filtered[:, -1]
    states[:, -1] = rng.random(len(unary)) < filtered[:, -1]
    for t in range(n - 2, -1, -1):
        # P(on at t | state at t + 1)
        stays = filtered[:, t] * (1.0 - off) / np.maximum(ahead[:, t + 1], 1e-300)
        ended = filtered[:, t] * off / np.maximum(1.0 - ahead[:, t + 1], 1e-300)
        smoothed[:, t] = smoothed[:, t + 1] * stays + (1.0 - smoothed[:, t + 1]) * ended
        states[:, t] = rng.random(len(unary)) < np.where(states[:, t + 1], stays, ended)
    return smoothed, states
