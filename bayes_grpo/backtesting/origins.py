"""A log as it stood at an earlier step, and what the forecast would have said there of the rows that came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.backtesting.pieces import Piece, piece_of
from bayes_grpo.common.errors import FitError
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.basis import MIN_FORECAST_ROWS, Basis
from bayes_grpo.forecasting.events import RewardPaths
from bayes_grpo.forecasting.fits import fit_regimes
from bayes_grpo.forecasting.hazard import Hazard
from bayes_grpo.forecasting.level import LEVEL_NAME, level_of, level_paths
from bayes_grpo.forecasting.paths import allot, regime_paths
from bayes_grpo.forecasting.pool import Pool, pooled
from bayes_grpo.forecasting.priors import PriorsFor
from bayes_grpo.forecasting.spans import origin_state
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.future import FutureRows
from bayes_grpo.rows.prepared import prepare_rows
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of, window_weight
from bayes_grpo.rows.schedule import schedule_of
from bayes_grpo.rows.table import RowTable

DRAWS = 1000


@dataclass(frozen=True, eq=False)
class Method:
    """The regimes that are averaged, and how they are fitted."""

    regimes: Sequence[str | Regime]
    priors: PriorsFor
    settings: ImportanceSettings
    pool: Pool | bool


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a log is forecast from, and what came.

    Attributes:
        share: Share of the rows before it.
        basis: What the forecast rests on, from the rows before it alone.
        future: The rows to predict, shape (h,) each: when, not what.
        y: Their values, shape (h,).
        scale: Standard deviation of the whole curve.
    """

    share: float
    basis: Basis
    future: FutureRows
    y: np.ndarray
    scale: float


class Predicted(NamedTuple):
    """What was predicted at an origin, before events.

    Attributes:
        draws: Forecaster → predictive draws of every row, shape (draws, h); without the average.
        average: Paths of laws and level by their weights, shape (draws, h).
        weights: Weights of the laws, and of the level.
        piece: What a pool is learned from; None without one.
    """

    draws: dict[str, np.ndarray]
    average: RewardPaths
    weights: dict[str, float]
    piece: Piece | None


def origin_of(run: Run, whole: RowTable, share: float) -> Origin:
    """Rows as the log stood at the origin, where nothing knows what came later, and the rows that came.

    Raises:
        FitError: Too few rows before it.
    """
    n = round(share * len(whole.y))
    if n < MIN_FORECAST_ROWS - 2:
        raise FitError(f"{n} rows are too few to forecast from; at least {MIN_FORECAST_ROWS - 2} are needed")
    past = rows_of(run.until(float(whole.step[n - 1])), "reward" if whole.signal == "reward" else "eval").evenly_noisy()
    settings = dict(run.settings.items())
    ahead, step = schedule_of(past, settings), whole.step[n:]
    before = np.concatenate([past.step[-1:], step[:-1]])
    return Origin(
        share=share,
        basis=Basis(prepare_rows(past, many=True), reward_range(past, settings), ahead, (), run.name, settings),
        future=FutureRows(step, whole.window[n:], ahead.mean(step, step - before), window_weight(whole.window)[n:]),
        y=whole.y[n:],
        scale=whole.scale,
    )


def predicted(origin: Origin, method: Method, seed: int, tell: Progress) -> Predicted:
    """Predictive draws of every row after the origin, by forecaster, and their average."""
    past, reward = origin.basis.table, origin.basis.reward
    fitted = fit_regimes(
        origin.basis.rows,
        method.regimes,
        reward=reward,
        priors=method.priors,
        seed=seed,
        settings=method.settings,
        strict=False,
        progress=tell,
    )
    paths = {
        name: RewardPaths(*regime_paths(x, origin.future, DRAWS, seed_of(seed, "paths", name), reward, inside)[:3])
        for name, x, inside in ((k, x, fitted.bounded[k].share) for k, x in fitted.draws.items())
    }
    for name in (x if isinstance(x, str) else x.name for x in method.regimes):
        if name not in paths and "flat" in paths:
            paths[name] = paths["flat"]  # too few rows for this law: without a trend is what remains of it

    def averaged(weights: Mapping[str, float]) -> RewardPaths:
        parts = []
        for name, count in allot(DRAWS, weights).items():
            chosen = np.random.default_rng(seed_of(seed, "averaged", name)).choice(DRAWS, count, replace=False)
            parts.append([x[chosen] for x in paths[name]])
        return RewardPaths(*(np.concatenate(x) for x in zip(*parts, strict=True)))

    found = pooled(method.pool, past, fitted, len(origin.y))
    if found is None:
        return Predicted({k: x.rows for k, x in paths.items()}, averaged(fitted.weights), fitted.weights, None)
    level = level_paths(level_of(past.y), len(origin.y), DRAWS, seed_of(seed, "paths", LEVEL_NAME), reward)
    paths[LEVEL_NAME] = RewardPaths(level[0], level[1], level[2])
    laws_alone, at_level = averaged(fitted.weights).rows, paths[LEVEL_NAME].rows
    piece = piece_of(origin.basis.name, origin.share, found.features, laws_alone, at_level, origin.y, origin.scale)
    return Predicted({k: x.rows for k, x in paths.items()}, averaged(found.weights), found.weights, piece)


def with_hazard(origin: Origin, average: RewardPaths, hazard: Hazard, seed: int) -> np.ndarray:
    """Averaged rows of which some meet an event, shape (draws, h).

    Args:
        origin: Where the log is forecast from.
        average: Averaged paths of the rows that came.
        hazard: How probable events are.
        seed: Seed.
    """
    reward, moving = origin.basis.reward, np.flatnonzero(origin.future.rate > 0.0)
    state = origin_state(origin.basis.table.y, reward)
    now = np.full(len(average.latent), state.now)
    return hazard.met(state, len(moving), average, now, moving, reward, seed).paths.rows
