"""Orders of data that runs share: the effect of the data on every row, past and future, and whose order a run has.

Within a group of runs of one order (`bayes_grpo.references.order`) the share of the effects in the noise of a row has
its exact likelihood on a grid, and the effects have an exact posterior. A Bayes factor decides whether one more run
shares the order: its rows without the effects against its rows as logged. The prior is the share of reference runs with
that order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.references.curve import SmoothCurve, Stretch
from bayes_grpo.references.order import INSTANT, Windows, groups_of_one_order, overlap, scores_of_pairs, window_of

SHARE_GRID = np.concatenate([[0.0], np.linspace(0.025, 0.975, 39)])
"""Shares at which the likelihood is known."""
CERTAINTY = 0.8
"""What the likelihood of a share counts, because curves are taken from the same rows: with it intervals of simulated
families hold 90%."""
NONE = 0.5
"""Pseudo-count of reference runs with an order of their own, or with none."""
CERTAIN = 0.5
"""Probability from which a run counts as sharing an order with its reference runs."""


class StepEffect(NamedTuple):
    """Posterior of the effects on rows, in prior standard deviations of an effect.

    Attributes:
        mean: Posterior mean, shape (n,); 0 where no reference run has a row.
        var: Posterior variance, shape (n,); 1 there.
    """

    mean: np.ndarray
    var: np.ndarray


@dataclass(frozen=True, eq=False)
class DataOrder:
    """An order of data that several runs share, with the effects of its steps.

    Attributes:
        members: Places of the runs, in their order.
        probability: Probability of each of `SHARE_GRID`, given that the order is shared, shape (40,); 0 at the share 0.
        effects: Effects at the median share, stretch by stretch: where atoms begin and end, mean and covariance.
    """

    members: tuple[int, ...]
    probability: np.ndarray
    effects: tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], ...]

    @property
    def share(self) -> Interval:
        """Share of a row's noise variance that is an effect of the step."""
        return share_interval(self.probability)

    def at(self, windows: Windows) -> StepEffect:
        """Effects on rows.

        Args:
            windows: Steps at which the rows end and steps averaged into each, shape (2, n).
        """
        mean, var = np.zeros(windows.shape[1]), np.ones(windows.shape[1])
        for start, end, known, cov in self.effects:
            on = incidence_of(windows, (start, end))
            mean += on @ known
            # What reference runs say nothing of keeps its own variance.
            var += np.einsum("ia,ab,ib->i", on, cov - np.eye(len(cov)), on)
        return StepEffect(mean, np.clip(var, 0.0, 1.0))


def share_interval(probability: np.ndarray) -> Interval:
    """Median and interval of a share from its probabilities on `SHARE_GRID`."""
    tail = (1.0 - LEVEL) / 2.0
    low, middle, high = (float(np.interp(q, np.cumsum(probability), SHARE_GRID)) for q in (tail, 0.5, 1.0 - tail))
    return Interval(middle, low, high, LEVEL)


def orders_of(curves: Sequence[SmoothCurve]) -> list[DataOrder]:
    """The orders of data that several of the runs share, the clearest first.

    Args:
        curves: Runs, cut at the same steps.
    """
    groups = groups_of_one_order(*scores_of_pairs(curves)) if len(curves) > 1 else []
    return [order_among(curves, members) for members in groups]


def order_among(curves: Sequence[SmoothCurve], members: Sequence[int]) -> DataOrder:
    """The order that some runs share.

    Args:
        curves: All runs, cut at the same steps.
        members: Places of those that share it.
    """
    blocks = blocks_of([curves[i] for i in members])
    score = CERTAINTY * share_likelihood(blocks)
    score[0] = -np.inf
    probability = softmax(score)
    share = share_interval(probability).median
    return DataOrder(tuple(members), probability, tuple((b.start, b.end, *b.solved(share)[2:]) for b in blocks))


def order_of(run: SmoothCurve, orders: Sequence[DataOrder], others: int) -> DataOrder | None:
    """The order that a run shares with a probability of at least `CERTAIN`; None where it shares none.

    Args:
        run: The run as far as it has come.
        orders: Orders of its reference runs.
        others: Reference runs that share none of them.
    """
    score = [math.log(others + NONE)]
    for order in orders:
        gain = 0.0
        for s in run.stretches:
            at = order.at(window_of(run, s))
            gain += _density(run, s, order.share.median, at) - _density(run, s, 0.0, at)
        score.append(math.log(len(order.members)) + gain)
    weight = softmax(score)
    best = int(np.argmax(weight))
    return orders[best - 1] if best > 0 and weight[best] >= CERTAIN else None


def _density(run: SmoothCurve, stretch: Stretch, share: float, at: StepEffect) -> float:
    """Log density of a stretch less a constant, where effects have a share of the noise."""
    rows = stretch.rows
    y = (run.table.y[rows] - run.table.centre) / run.sd - math.sqrt(share) * at.mean
    cov = (stretch.root * stretch.value) @ stretch.root.T + np.diag(1.0 - share + share * at.var)
    lower = np.linalg.cholesky(cov)
    half = np.linalg.solve(lower, y)
    return -0.5 * float(half @ half) - float(np.sum(np.log(np.diag(lower))))


class Solved(NamedTuple):
    """What a block says at a share.

    Attributes:
        square: Standardised rows in the inverse of their covariance, yᵀ C⁻¹ y.
        log_det: Log determinant of that covariance.
        mean: Posterior mean of the effects of its atoms, shape (atoms,).
        cov: Their covariance, shape (atoms, atoms).
    """

    square: float
    log_det: float
    mean: np.ndarray
    cov: np.ndarray


@dataclass(frozen=True, eq=False)
class EffectBlock:
    """Stretches of several runs between two cuts, and the effects that they share.

    Attributes:
        start: Steps at which atoms begin, shape (atoms,): pieces of steps that no row divides.
        end: Steps at which they end.
        parts: Of each run: y over its noise in the eigenvectors of its curve, incidence of atoms there, eigenvalues.
    """

    start: np.ndarray
    end: np.ndarray
    parts: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]

    def solved(self, share: float) -> Solved:
        """Likelihood and effects at a share, by Woodbury's identity over the atoms."""
        atoms = len(self.start)
        precision, pull, square, log_det = np.eye(atoms), np.zeros(atoms), 0.0, 0.0
        for y, incidence, value in self.parts:
            inverse = 1.0 / (value + 1.0 - share)
            scaled = incidence * inverse[:, None]
            precision += share * (incidence.T @ scaled)
            pull += math.sqrt(share) * (scaled.T @ y)
            square += float(np.sum(y**2 * inverse))
            log_det -= float(np.sum(np.log(inverse)))
        root = np.linalg.cholesky(precision)
        half = np.linalg.solve(root, pull)
        square -= float(half @ half)
        log_det += 2.0 * float(np.sum(np.log(np.diag(root))))
        inverse = np.linalg.inv(root)
        return Solved(square, log_det, inverse.T @ half, inverse.T @ inverse)


def share_likelihood(blocks: Sequence[EffectBlock], shares: np.ndarray = SHARE_GRID) -> np.ndarray:
    """Log likelihood of the rows of runs at every share, less that without sharing, shape (shares,).

    The runs' noises may all be larger or smaller by one factor, which is integrated out: where much is shared, one draw
    of the effects made them what they are.

    Args:
        blocks: Rows of runs that share an order.
        shares: Shares below 1.
    """
    count = sum(len(y) - 1 for block in blocks for y, *_ in block.parts)  # a level is free in every stretch
    square, log_det = np.zeros(1 + len(shares)), np.zeros(1 + len(shares))
    for block in blocks:
        found = [block.solved(float(s)) for s in (0.0, *shares)]
        square += [x.square for x in found]
        log_det += [x.log_det for x in found]
    score = -0.5 * (count * np.log(square) + log_det)
    return score[1:] - score[0]


def atoms_of(windows: Sequence[Windows]) -> tuple[np.ndarray, np.ndarray]:
    """Pieces of steps that no row of any run divides, each in at least one row: where they begin and end.

    Args:
        windows: Steps at which rows end and steps averaged into each, of every run.
    """
    low = np.concatenate([end - np.maximum(width, INSTANT) for end, width in windows])
    high = np.concatenate([end for end, _ in windows])
    edge = np.unique(np.round(np.concatenate([low, high]), 7))
    start, end = edge[:-1], edge[1:]
    middle = 0.5 * (start + end)
    order = np.argsort(low)
    reach = np.maximum.accumulate(high[order])
    place = np.searchsorted(low[order], middle) - 1
    inside = (place >= 0) & (reach[np.maximum(place, 0)] > middle)
    return start[inside], end[inside]


def incidence_of(window: Windows, atoms: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """How the effects of atoms enter rows, each effect of variance 1, shape (n, atoms)."""
    start, end = atoms
    return overlap(window, np.stack([end, end - start]))


def blocks_of(curves: Sequence[SmoothCurve]) -> list[EffectBlock]:
    """The runs between their cuts, each a problem of its own."""
    at: dict[int, list[tuple[SmoothCurve, Stretch]]] = {}
    for curve in curves:
        for s in curve.stretches:
            at.setdefault(s.place, []).append((curve, s))
    out = []
    for _, found in sorted(at.items()):
        windows = [window_of(c, s) for c, s in found]
        atoms = atoms_of(windows)
        parts = tuple(
            (
                s.root.T @ ((c.table.y[s.rows] - c.table.centre) / c.sd),
                s.root.T @ incidence_of(w, atoms),
                s.value,
            )
            for (c, s), w in zip(found, windows, strict=True)
        )
        out.append(EffectBlock(*atoms, parts))
    return out
