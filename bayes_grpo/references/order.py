"""Which runs saw the same data at the same steps.

Runs whose order of data is shared move together at the same step:

    y[j, s] = curve[j](s) + sd[j] (√share · effect[s] + √(1 − share) · noise[j, s])

with standard normal effects and noises. For two runs the product of their rows, weighted by the inverse covariances
that their curves leave, is an unbiased estimate of the share. Its variance without any sharing is known (a score test;
Rao's MINQUE, https://doi.org/10.2307/2283583). Runs are grouped so that the pairs inside a group say most. A group
counts where it says more than chance finds among so many runs (`threshold`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bayes_grpo.references.curve import SmoothCurve, Stretch

INSTANT = 1e-6
"""Steps that a row of one instant is as wide as, so that it overlaps with rows of the same instant alone."""

type Windows = np.ndarray
"""Steps at which rows end, and steps averaged into each, shape (2, n)."""


def window_of(curve: SmoothCurve, stretch: Stretch) -> Windows:
    """Windows of the rows of a stretch."""
    return np.stack([curve.table.step[stretch.rows], curve.table.window[stretch.rows]])


def overlap(a: Windows, b: Windows) -> np.ndarray:
    """Correlation of the step effects in rows of two runs, were there no other noise, shape (n, m).

    Args:
        a: Steps at which rows end, and steps averaged into each, shape (2, n).
        b: The same of the other run, shape (2, m).
    """
    (end, width), (other_end, other_width) = a, b
    w, v = np.maximum(width, INSTANT)[:, None], np.maximum(other_width, INSTANT)[None, :]
    common = np.minimum(end[:, None], other_end[None, :]) - np.maximum(end[:, None] - w, other_end[None, :] - v)
    # Steps are floats of thousands: what overlaps by less than their rounding does not overlap.
    common = np.where(common > 1e-9, np.minimum(common, np.minimum(w, v)), 0.0)
    return common / np.sqrt(w * v)


def scores_of_pairs(curves: Sequence[SmoothCurve]) -> tuple[np.ndarray, np.ndarray]:
    """What every pair of runs says of the share of the variance that they share.

    Args:
        curves: Runs, cut at the same steps.

    Returns:
        Products of weighted rows of the same steps, and their variances without sharing, shape (runs, runs) each.
    """
    k = len(curves)
    score, information = np.zeros((k, k)), np.zeros((k, k))
    weighed = [{s.place: (window_of(c, s), *c.scored(s)) for s in c.stretches} for c in curves]
    for i in range(k):
        for j in range(i):
            for place in weighed[i].keys() & weighed[j].keys():
                (one, y, inverse), (other, x, its_inverse) = weighed[i][place], weighed[j][place]
                if np.array_equal(one, other):
                    score[i, j] += float(y @ x)
                    information[i, j] += float(np.sum(inverse * its_inverse))
                    continue
                o = overlap(one, other)
                score[i, j] += float(y @ o @ x)
                information[i, j] += float(np.sum((inverse @ o) * (o @ its_inverse)))
    return score + score.T, information + information.T


def groups_of_one_order(score: np.ndarray, information: np.ndarray) -> list[tuple[int, ...]]:
    """Groups of runs that share an order, the clearest first; a run is in one of them or in none.

    Args:
        score: Products of the rows of pairs, shape (runs, runs).
        information: Their variances without sharing.
    """
    left, out = list(range(len(score))), []
    known = information[information > 0.0]
    least = threshold(len(left), max(float(np.median(known)), 1.0)) if len(known) else math.inf
    while len(left) > 1:
        at = np.ix_(left, left)
        chosen, z = best_group(score[at], information[at])
        if not z > least:
            break
        out.append(tuple(left[i] for i in chosen))
        left = [x for i, x in enumerate(left) if i not in set(chosen)]
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
            whole, known = 0.5 * float(s @ chosen), 0.5 * float(i @ chosen)
            now = whole / math.sqrt(known) if known > 0 else -math.inf
            sign = np.where(chosen, -1.0, 1.0)
            new_s, new_i = whole + sign * s, known + sign * i
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

    A fit to simulations of 2 to 60 runs and 10 to 1,000 rows, within 7% of each.

    Args:
        runs: Number of runs.
        rows: What a pair of them says, in white rows: products of few rows have long tails.
    """
    return 0.47 + 0.46 * math.sqrt(runs) + 0.76 * math.log(runs) + 0.38 * (runs - 2) / math.sqrt(rows)
