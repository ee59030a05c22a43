"""Orders of data that runs share: which runs saw the same data at the same steps, and the effect of every step.

Runs whose order of data is shared move together at the same step:

    y[j, s] = curve[j](s) + sd[j] (√share · effect[s] + √(1 − share) · noise[j, s])

with standard normal effects and noises. For two runs the product of their rows, weighted by the inverse covariances
that their curves leave, is an unbiased estimate of the share. Its variance without any sharing is known (a score test;
Rao's MINQUE, https://doi.org/10.2307/2283583). Runs are grouped so that the pairs inside a group say most. A group
counts where it says more than chance finds among so many runs (`threshold`). Within it the share has its exact
likelihood on a grid, and the effects have an exact posterior. A Bayes factor decides whether one more run shares the
order: its rows without the effects against its rows as logged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import LEVEL, QUANTILES, Interval
from bayes_grpo.references.curve import Segment, SmoothCurve

SHARE_GRID = np.concatenate([[0.0], np.linspace(0.025, 0.975, 39)])
"""Shares at which the likelihood is known."""
CERTAINTY = 0.8
"""Weight of the likelihood of a share, because curves are taken from the same rows: with it intervals of simulated
families hold 90%."""
NONE = 0.5
"""Pseudo-count of reference runs with an order of their own, or with none."""
CERTAIN = 0.5
"""Probability from which a run counts as sharing an order with its reference runs."""
INSTANT = 1e-6
"""Steps that a row of one instant is as wide as, so that it overlaps with rows of the same instant alone."""

type Windows = np.ndarray
"""Steps at which rows end, and steps averaged into each, shape (2, n)."""


def window_of(curve: SmoothCurve, stretch: Segment) -> Windows:
    """Windows of the rows of a stretch."""
    return np.stack([curve.table.step[stretch.rows], curve.table.window[stretch.rows]])


def overlap(a: Windows, b: Windows) -> np.ndarray:
    """Correlation of the step effects in rows of two runs, were there no other noise, shape (n, m)."""
    (end, width), (other_end, other_width) = a, b
    w = np.maximum(width, INSTANT)[:, None]
    v = np.maximum(other_width, INSTANT)[None, :]
    common = np.minimum(end[:, None], other_end[None, :]) - np.maximum(end[:, None] - w, other_end[None, :] - v)
    # Steps are floats of thousands: what overlaps by less than their rounding does not overlap.
    common = np.where(common > 1e-9, np.minimum(common, np.minimum(w, v)), 0.0)
    return common / np.sqrt(w * v)


def _scores_of_pairs(curves: Sequence[SmoothCurve]) -> tuple[np.ndarray, np.ndarray]:
    """Products of weighted rows of every pair of runs, and their variances without sharing, shape (runs, runs) each."""
    k = len(curves)
    score, information = np.zeros((k, k)), np.zeros((k, k))
    weighed = [{s.place: (window_of(c, s), *c.scored(s)) for s in c.stretches} for c in curves]
    for i in range(k):
        for j in range(i):
            for place in weighed[i].keys() & weighed[j].keys():
                (one, y, inverse), (other, x, other_inverse) = weighed[i][place], weighed[j][place]
                if np.array_equal(one, other):
                    score[i, j] += float(y @ x)
                    information[i, j] += float(np.sum(inverse * other_inverse))
                    continue
                o = overlap(one, other)
                score[i, j] += float(y @ o @ x)
                information[i, j] += float(np.sum((inverse @ o) * (o @ other_inverse)))
    return score + score.T, information + information.T


def _groups_of_one_order(score: np.ndarray, information: np.ndarray) -> list[tuple[int, ...]]:
    """Groups of runs that share an order, by `_scores_of_pairs`, the clearest first; a run is in one at most."""
    remaining, out = list(range(len(score))), []
    known = information[information > 0.0]
    least = threshold(len(remaining), max(float(np.median(known)), 1.0)) if len(known) else math.inf
    while len(remaining) > 1:
        at = np.ix_(remaining, remaining)
        chosen, z = best_group(score[at], information[at])
        if not z > least:
            break
        out.append(tuple(remaining[i] for i in chosen))
        remaining = [x for i, x in enumerate(remaining) if i not in set(chosen)]
    return out


def best_group(score: np.ndarray, information: np.ndarray) -> tuple[list[int], float]:
    """The group whose pairs together lie furthest above what chance gives, and how many standard deviations.

    Grown from the clearest pairs and from all runs, a run at a time.
    """
    k = len(score)
    z = np.where(information > 0.0, score / np.sqrt(np.maximum(information, 1e-300)), -np.inf)
    pairs = np.column_stack(np.unravel_index(np.argsort(-z, axis=None)[: 2 * min(k, 6) : 2], z.shape))
    starts = [np.isin(np.arange(k), p) for p in pairs] + [np.ones(k, bool)]
    best: tuple[list[int], float] = ([], -math.inf)
    for chosen in starts:
        while True:
            s, i = score @ chosen, information @ chosen
            total, known = 0.5 * float(s @ chosen), 0.5 * float(i @ chosen)
            now = total / math.sqrt(known) if known > 0 else -math.inf
            sign = np.where(chosen, -1.0, 1.0)
            new_s, new_i = total + sign * s, known + sign * i
            changed = np.where(new_i > 1e-12, new_s / np.sqrt(np.maximum(new_i, 1e-300)), -np.inf)
            if chosen.sum() <= 2:
                changed[chosen] = -np.inf
            at = int(np.argmax(changed))
            if not changed[at] > now + 1e-9:
                break
            chosen = chosen.copy()
            chosen[at] = ~chosen[at]
        if now > best[1]:
            best = (np.flatnonzero(chosen).tolist(), now)
    return best


def threshold(runs: int, rows: float) -> float:
    """Standard deviations that the best group of so many runs exceeds by chance with a probability of 5%.

    A fit to simulations of 2 to 60 runs and 10 to 1,000 rows, within 7% of each. Rows are the white ones of a pair of
    runs: products of few rows have long tails.
    """
    return 0.47 + 0.46 * math.sqrt(runs) + 0.76 * math.log(runs) + 0.38 * (runs - 2) / math.sqrt(rows)


class StepEffect(NamedTuple):
    """Posterior mean and variance of the effects on rows, (n,), in prior sds; 0 and 1 where no reference has a row."""

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
        """Effects on rows of such windows."""
        mean, var = np.zeros(windows.shape[1]), np.ones(windows.shape[1])
        for start, end, known, cov in self.effects:
            on = incidence_of(windows, (start, end))
            mean += on @ known
            # What reference runs say nothing of keeps its own variance.
            var += np.einsum("ia,ab,ib->i", on, cov - np.eye(len(cov)), on)
        return StepEffect(mean, np.clip(var, 0.0, 1.0))


def share_interval(probability: np.ndarray) -> Interval:
    """Median and interval of a share from its probabilities on `SHARE_GRID`."""
    low, middle, high = (float(np.interp(q, np.cumsum(probability), SHARE_GRID)) for q in QUANTILES)
    return Interval(middle, low, high, LEVEL)


def orders_of(curves: Sequence[SmoothCurve]) -> list[DataOrder]:
    """The orders of data that several of the runs, cut at the same steps, share, the clearest first."""
    groups = _groups_of_one_order(*_scores_of_pairs(curves)) if len(curves) > 1 else []
    return [order_among(curves, members) for members in groups]


def order_among(curves: Sequence[SmoothCurve], members: Sequence[int]) -> DataOrder:
    """The order that some of the runs, cut at the same steps, share: those at the places of ``members``."""
    from scipy.special import softmax  # here: without reference runs a forecast needs no SciPy

    blocks = blocks_of([curves[i] for i in members])
    score = CERTAINTY * share_likelihood(blocks)
    score[0] = -np.inf
    probability = softmax(score)
    share = share_interval(probability).median
    return DataOrder(tuple(members), probability, tuple((b.start, b.end, *b.solved(share)[2:]) for b in blocks))


def order_of(run: SmoothCurve, orders: Sequence[DataOrder], others: int) -> DataOrder | None:
    """The order that a run shares with a probability of at least `CERTAIN`; ``others`` reference runs share none."""
    from scipy.special import softmax

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


def _density(run: SmoothCurve, stretch: Segment, share: float, at: StepEffect) -> float:
    """Log density of a stretch less a constant, where effects have a share of the noise."""
    rows = stretch.rows
    y = (run.table.y[rows] - run.table.centre) / run.sd - math.sqrt(share) * at.mean
    cov = (stretch.root * stretch.value) @ stretch.root.T + np.diag(1.0 - share + share * at.var)
    lower = np.linalg.cholesky(cov)
    half = np.linalg.solve(lower, y)
    return -0.5 * float(half @ half) - float(np.sum(np.log(np.diag(lower))))


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

    def solved(self, share: float) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Likelihood and effects at a share, by Woodbury's identity over the atoms.

        Returns:
            yᵀ C⁻¹ y and log det C of the standardized rows, and mean and covariance of the effects of the atoms.
        """
        atoms = len(self.start)
        precision = np.eye(atoms)
        pull = np.zeros(atoms)
        square = 0.0
        log_det = 0.0
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
        return square, log_det, inverse.T @ half, inverse.T @ inverse


def share_likelihood(blocks: Sequence[EffectBlock], shares: np.ndarray = SHARE_GRID) -> np.ndarray:
    """Log likelihood of the rows of runs at every share below 1, less that without sharing, shape (shares,).

    The runs' noises may all be larger or smaller by one factor, which is integrated out: where much is shared, one draw
    of the effects made them what they are.
    """
    count = sum(len(y) - 1 for block in blocks for y, *_ in block.parts)  # a level is free in every stretch
    square, log_det = np.zeros(1 + len(shares)), np.zeros(1 + len(shares))
    for block in blocks:
        found = [block.solved(float(s)) for s in (0.0, *shares)]
        square += [x[0] for x in found]
        log_det += [x[1] for x in found]
    score = -0.5 * (count * np.log(square) + log_det)
    return score[1:] - score[0]


def atoms_of(windows: Sequence[Windows]) -> tuple[np.ndarray, np.ndarray]:
    """Pieces of steps that no row of any run divides, each in at least one row: where they begin and end."""
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
    at: dict[int, list[tuple[SmoothCurve, Segment]]] = {}
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
