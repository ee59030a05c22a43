"""Predictive paths of one regime over the future rows, within the range of the reward."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.intervals import spread
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.paths import Paths, predict
from bayes_grpo.forecasting.events import RewardPaths
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.schedule import FutureGrid
from bayes_grpo.rows.series import Series

RUNAWAY = 10.0
"""Largest excursion of a trend beyond the rows and its fixed point, in ranges of the rows; beyond it, it diverges."""


def regime_paths(
    draws: Draws, future: FutureGrid, count: int, seed: int, reward: RewardRange, inside: float
) -> tuple[RewardPaths, np.ndarray]:
    """Paths of one regime, a share of them inside the range of the reward.

    For this share the prior of the fixed point is truncated to the range: draws outside are replaced by others. Paths
    that noise carries out of the range are clipped. Draws whose trend diverges are always replaced: a linear regime
    describes only the beginning of a divergence.

    Args:
        draws: Draws of the regime.
        future: Future rows.
        count: Number of paths.
        seed: Seed.
        reward: Range of the reward.
        inside: Share of the paths inside the range, equal to the probability of the range.

    Returns:
        The paths, shape (count, h), and their fixed points, shape (count,).
    """
    table, total = draws.rows, draws.size
    tries = max(count, min(4 * count, total))
    picks = np.random.default_rng(seed).permutation(spread(total, tries, repeat=True))
    found = predict(draws, picks, future, seed)
    lasting = np.flatnonzero(~_runs_away(found, table))
    if not len(lasting):
        lasting = np.arange(tries)
    fixed = found.fixed_point[lasting]
    settling = lasting[(fixed >= reward.low) & (fixed <= reward.high)]
    if not len(settling):
        settling = lasting  # every draw settles outside: clipping alone keeps the paths inside
    num_inside = round(inside * count)
    chosen = np.concatenate([np.resize(settling, num_inside), np.resize(lasting[::-1], count - num_inside)])
    paths = [x[chosen] for x in (found.latent, found.trend, found.rows, found.fixed_point)]
    for x in paths:
        np.clip(x[:num_inside], reward.low, reward.high, out=x[:num_inside])
    return RewardPaths(*paths[:3]), paths[3]


def _runs_away(found: Paths, table: Series) -> np.ndarray:
    """Whether each draw's trend ends up far from the rows and from its own fixed point, shape (draws,)."""
    far = RUNAWAY * float(np.ptp(table.y))
    lowest, highest = np.minimum(table.y.min(), found.fixed_point), np.maximum(table.y.max(), found.fixed_point)
    below, above = found.trend.min(axis=1) < lowest - far, found.trend.max(axis=1) > highest + far
    return below | above | ~np.isfinite(found.trend).all(axis=1)


def allot(draws: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Number of draws of each regime: shares of ``draws``, rounded so that they sum to it."""
    exact = {name: share * draws for name, share in shares.items()}
    counts = {name: int(x) for name, x in exact.items()}
    rest = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in rest[: draws - sum(counts.values())]:
        counts[name] += 1
    return counts
