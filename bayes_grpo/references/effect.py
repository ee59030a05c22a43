"""Effect of the data order on every row of a run, past and future, and the probability that the run shares the order.

Runs that share an order give the posterior of its effects. A Bayes factor decides whether one more run shares it: its
rows without the effects against its rows as logged. The prior is the share of reference runs with that order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from bayes_grpo.references.curve import SmoothCurve, Stretch
from bayes_grpo.references.order import DataOrder, Windows, blocks_of, incidence_of

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
class Effects:
    """The effects of an order, from runs that share it.

    Attributes:
        share: Share of a row's noise variance that is such an effect.
        blocks: Of every stretch: where its atoms begin and end, the effects' mean and covariance.
    """

    share: float
    blocks: tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], ...]

    def at(self, windows: Windows) -> StepEffect:
        """Effects on rows.

        Args:
            windows: Steps at which the rows end and steps averaged into each, shape (2, n).
        """
        mean, var = np.zeros(windows.shape[1]), np.ones(windows.shape[1])
        for start, end, known, cov in self.blocks:
            on = incidence_of(windows, (start, end))
            mean += on @ known
            # What reference runs say nothing of keeps its own variance.
            var += np.einsum("ia,ab,ib->i", on, cov - np.eye(len(cov)), on)
        return StepEffect(mean, np.clip(var, 0.0, 1.0))


def step_effects(order: DataOrder, curves: Sequence[SmoothCurve]) -> Effects:
    """The effects of an order.

    Args:
        order: Which runs share it.
        curves: All runs, in the order that its members count.
    """
    share = order.share.median
    blocks = []
    for block in blocks_of([curves[i] for i in order.members]):
        solved = block.solved(share)
        blocks.append((block.start, block.end, solved.mean, solved.cov))
    return Effects(share, tuple(blocks))


def order_of(run: SmoothCurve, orders: Sequence[Effects], sizes: Sequence[int], others: int) -> int | None:
    """Place of the order that a run shares with a probability of at least `CERTAIN`; None where it shares none.

    Args:
        run: The run as far as it has come.
        orders: Effects of each order, from reference runs alone.
        sizes: Reference runs that share each.
        others: Reference runs that share none of them.
    """
    score = [math.log(others + NONE)]
    for effects, size in zip(orders, sizes, strict=True):
        gain = 0.0
        for s in run.stretches:
            at = effects.at(np.stack([run.table.step[s.rows], run.table.window[s.rows]]))
            gain += _density(run, s, effects.share, at) - _density(run, s, 0.0, at)
        score.append(math.log(size) + gain)
    weight = softmax(score)
    best = int(np.argmax(weight))
    return best - 1 if best > 0 and weight[best] >= CERTAIN else None


def _density(run: SmoothCurve, stretch: Stretch, share: float, at: StepEffect) -> float:
    """Log density of a stretch less a constant, where effects have a share of the noise."""
    rows = stretch.rows
    y = (run.table.y[rows] - run.table.centre) / run.sd - math.sqrt(share) * at.mean
    cov = (stretch.root * stretch.value) @ stretch.root.T + np.diag(1.0 - share + share * at.var)
    lower = np.linalg.cholesky(cov)
    half = np.linalg.solve(lower, y)
    return -0.5 * float(half @ half) - float(np.sum(np.log(np.diag(lower))))
