"""The stages of a forecast: paths of each regime, mixed with the last value, then events and the end of the schedule.

A path is a draw's state after the last row, carried over future rows with its noise. These are appended to the past
ones with missing values, so that every regime is put on them by the same code that put it on the log: windows, gaps,
learning rate and regimes that depend on the step all hold beyond the last row. Every later stage takes a mixture and
returns a new one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.programs import over_draws
from bayes_grpo.common.runtime import cores
from bayes_grpo.common.sampling import seed_of, spawn, spread
from bayes_grpo.dynamics.sampling import propagate, state_before
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.sampling.target import PriorNumbers, prior_levels, state_size
from bayes_grpo.forecasting.events import EventRates, RewardPaths, origin_state
from bayes_grpo.forecasting.fits import Ensemble
from bayes_grpo.forecasting.inputs import ForecastInputs
from bayes_grpo.forecasting.level import LEVEL_NAME, level_of, level_paths
from bayes_grpo.forecasting.references import REFERENCES_NAME
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows, followed_by
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.schedule import FutureGrid, RemainingRate
from bayes_grpo.rows.series import Series
from bayes_grpo.signals.loss import Fallen

RUNAWAY = 10.0
"""Largest excursion of a trend beyond the rows and its fixed point, in ranges of the rows; beyond it, it diverges."""


def predict(draws: Draws, picks: np.ndarray, future: FutureGrid, seed: int) -> tuple[RewardPaths, np.ndarray]:
    """Predictive paths of the picked draws of a posterior over future rows, one a pick, and their fixed points."""
    total = len(picks)
    first = len(draws.rows.y)
    h = len(future.step)
    rows = followed_by(draws.target.arrays, draws.rows, future)
    prior = draws.target.numbers
    n = state_size(draws.regime, rows)
    # Each drawn draw by draw: how many draws there are changes no draw's randomness.
    begin, later = (np.random.default_rng(part) for part in spawn(seed, 2))
    start = begin.standard_normal((total, n), np.float32)
    noise = np.zeros((total, len(rows.y), n + 2), np.float32)
    noise[:, first : first + h] = later.standard_normal((total, h, n + 2), np.float32)
    each = (draws.picked(picks), start, noise)
    ends = np.array([first, first + h])
    latent, trend, shown, fixed = over_draws(_path, (draws.regime,), each, prior, rows, ends)
    ahead = slice(first, first + h)
    return RewardPaths(latent[:, ahead], trend[:, ahead], shown[:, ahead]), fixed


def _path(
    regime: Regime, draw: tuple[dict[str, Array], Array, Array], prior: PriorNumbers, rows: Rows, ends: Array
) -> Any:
    """Draws the state after the last row and carries it over the rows to come."""
    values, begin, noise = draw
    space = regime.on_rows(values, prior_levels(regime, prior), rows)
    start = state_before(space, jnp.asarray(rows.y), ends[0], tuple(begin))
    return *propagate(space, start, ends[0], ends[1], noise), start[-1]


def regime_paths(
    draws: Draws, future: FutureGrid, count: int, seed: int, reward: RewardRange, inside: float
) -> tuple[RewardPaths, np.ndarray]:
    """Paths of one regime, shape (count, h), and their fixed points, shape (count,).

    In the share ``inside``, the probability of the reward's range, the prior of the fixed point is truncated to it:
    draws outside are replaced. Paths that noise carries out of the range are clipped. Draws whose trend diverges are
    always replaced: a linear regime describes only the beginning of a divergence.
    """
    table, total = draws.rows, draws.size
    tries = max(count, min(4 * count, total))
    picks = np.random.default_rng(seed).permutation(spread(total, tries, repeat=True))
    found, fixed_points = predict(draws, picks, future, seed)
    lasting = np.flatnonzero(~_runs_away(found.trend, fixed_points, table))
    if not len(lasting):
        lasting = np.arange(tries)
    fixed = fixed_points[lasting]
    settling = lasting[(fixed >= reward.low) & (fixed <= reward.high)]
    if not len(settling):
        settling = lasting  # every draw settles outside: clipping alone keeps the paths inside
    num_inside = round(inside * count)
    chosen = np.concatenate([np.resize(settling, num_inside), np.resize(lasting[::-1], count - num_inside)])
    paths = [x[chosen] for x in (*found, fixed_points)]
    for x in paths:
        np.clip(x[:num_inside], reward.low, reward.high, out=x[:num_inside])
    return RewardPaths(*paths[:3]), paths[3]


def _runs_away(trend: np.ndarray, fixed_point: np.ndarray, table: Series) -> np.ndarray:
    """Mask of draws whose trend ends far from the rows and from its own fixed point, shape (draws,)."""
    far = RUNAWAY * float(np.ptp(table.y))
    below = trend.min(axis=1) < np.minimum(table.y.min(), fixed_point) - far
    above = trend.max(axis=1) > np.maximum(table.y.max(), fixed_point) + far
    return below | above | ~np.isfinite(trend).all(axis=1)


def allot(draws: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Number of draws of each regime: shares of ``draws``, rounded so that they sum to it."""
    exact = {name: share * draws for name, share in shares.items()}
    counts = {name: int(x) for name, x in exact.items()}
    rest = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in rest[: draws - sum(counts.values())]:
        counts[name] += 1
    return counts


REGAINED = (-0.6, 1.5)
"""Range to which the regained share is clipped; it covers about 90% of the collapses in public logs."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Paths of several forecasters, from the last logged row on.

    Attributes:
        paths: Over the reward now, the rows to come and those beyond the horizon, shape (draws, 1 + h + k).
        regime: Forecaster of each draw, shape (draws,).
        event: Event that each draw meets, "" without one, shape (draws,).
        fixed: Fixed point at a constant learning rate, shape (draws,).
        final: Final reward under the remaining learning rate, shape (draws,).
        shares: Forecaster → share of the draws.
    """

    paths: RewardPaths
    regime: np.ndarray
    event: np.ndarray
    fixed: np.ndarray
    final: np.ndarray
    shares: dict[str, float]

    def following(self, paths: RewardPaths, taken: np.ndarray, share: float) -> Mixture:
        """The same with other paths, of which those that are taken, shape (draws,), follow reference runs."""
        settles = paths.trend[:, -1]
        return replace(
            self,
            paths=paths,
            regime=np.where(taken, REFERENCES_NAME, self.regime),
            fixed=np.where(taken, settles, self.fixed),
            final=np.where(taken, settles, self.final),
            shares={k: (1.0 - share) * w for k, w in self.shares.items()} | {REFERENCES_NAME: share},
        )


def regimes_and_last_value(
    inputs: ForecastInputs,
    fitted: Ensemble,
    requested: FutureGrid,
    shares: Mapping[str, float],
    draws: int,
    seed: int,
    fallen: Fallen | None = None,
) -> Mixture:
    """Paths of each regime and of the last-value forecaster, in proportion to their shares, which sum to 1."""
    reward, ahead = inputs.reward, inputs.ahead
    counts = {name: n for name, n in allot(draws, shares).items() if n}

    def one(name: str, count: int) -> tuple[np.ndarray, ...]:
        part = seed_of(seed, "paths", name)  # the paths of one depend on no other
        if name == LEVEL_NAME:
            paths, fixed = level_paths(level_of(inputs.table.y), len(requested.step), count, part, reward)
        else:
            paths, fixed = regime_paths(fitted.draws[name], requested, count, part, reward, fitted.bounded[name].share)
        return *paths, fixed

    with ThreadPoolExecutor(max_workers=cores()) as pool:
        parts = zip(*pool.map(one, counts, counts.values()), strict=True)
    latent, trend, rows, fixed = (np.concatenate(x) for x in parts)
    if fallen is not None:
        latent, trend, rows, fixed = (clip_recovery(fallen, x) for x in (latent, trend, rows, fixed))
    ends = math.isfinite(ahead.total_steps) or ahead.rate_now == 0
    return Mixture(
        paths=RewardPaths(latent, trend, rows),
        regime=np.repeat(list(counts), list(counts.values())),
        event=np.full(len(latent), ""),
        fixed=fixed,
        final=trend[:, -1] if ends else fixed,
        shares=dict(shares),
    )


def mix_events(
    mixture: Mixture, inputs: ForecastInputs, requested: FutureGrid, rates: EventRates, seed: int
) -> Mixture:
    """A mixture in which some paths meet an unmodeled event, at rows where the learning rate is above zero."""
    moving = np.flatnonzero(requested.rate[requested.of_forecast] > 0.0)
    paths, event, settles = rates.apply(
        origin_state(inputs.table.y, inputs.reward),
        requested.logged * len(moving) / requested.forecast_rows,
        mixture.paths,
        mixture.paths.latent[:, 0],
        1 + moving,
        inputs.reward,
        seed_of(seed, "events"),
    )
    fixed, final = (np.where(event == "", x, settles) for x in (mixture.fixed, mixture.final))
    return replace(mixture, paths=paths, event=event, fixed=fixed, final=final)


def freeze_after_schedule(mixture: Mixture, requested: FutureGrid, ahead: RemainingRate) -> Mixture:
    """A mixture whose paths stay constant once the learning rate reaches zero, whatever the regime predicts."""
    last = int(np.searchsorted(requested.step, ahead.ends))  # the row that the end falls into is the last that moves
    latent, trend, rows = (x.copy() for x in mixture.paths)
    noise = rows - latent  # stays with every row
    for x in (latent, trend):
        x[:, last + 1 :] = x[:, min(last, x.shape[1] - 1), None]
    final = mixture.final
    if math.isfinite(ahead.ends):  # where it comes to rest is where it ends, but for events, which end where they lead
        final = np.where(mixture.event == "", trend[:, -1], final)
    return replace(mixture, paths=RewardPaths(latent, trend, latent + noise), final=final)


def clip_recovery(fallen: Fallen, paths: np.ndarray) -> np.ndarray:
    """Paths clipped to the recovery seen in other runs after a collapse, same shape.

    A regime fitted to the rise does not describe the recovery from a collapse, and some regimes diverge after one.
    The regained share is (reward ahead - reward now) / (best reward - reward now).
    """
    low, high = (fallen.now + share * (fallen.best - fallen.now) for share in REGAINED)
    return np.clip(paths, low, high)
