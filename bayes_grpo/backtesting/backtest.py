"""`backtest`: the forecast from earlier steps of a log, scored on the rows that came.

At every origin the regimes are fitted to the rows before it alone, with priors from these rows alone, and every later
row is predicted. The rivals see the same rows. All steps ahead count alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.backtesting.rivals import RIVALS
from bayes_grpo.backtesting.scores import AVERAGED, Backtest, Score, covered, crps, log_score, pit
from bayes_grpo.common.errors import BayesGrpoError, FitError, SettingError, WorkerError
from bayes_grpo.common.executor import outcomes
from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.basis import MIN_FORECAST_ROWS, Basis
from bayes_grpo.forecasting.events import Hazard, RewardPaths, hazard_named, origin_state
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_regimes
from bayes_grpo.forecasting.level import LEVEL_NAME, level_of, level_paths
from bayes_grpo.forecasting.paths import allot, regime_paths
from bayes_grpo.forecasting.pool import Pool, pooled
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import prepare_rows
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of, window_weight
from bayes_grpo.rows.schedule import FutureRows, schedule_of
from bayes_grpo.rows.table import RowTable

ORIGINS = (0.3, 0.5, 0.7)
"""Forecast origins as shares of the rows."""
MIN_BACKTEST_ROWS = 20
"""Fewer rows leave too few before the first origin and after the last."""
BACKTEST_POINTS = ImportanceSettings(effective=1000.0)
"""Of hundreds of fits, only predictive draws are used."""
DRAWS = 1000
"""Predictive draws of a forecaster."""


def backtest(
    run: RunLike,
    *,
    origins: Sequence[float] = ORIGINS,
    signal: str = "auto",
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    pool: Pool | bool = True,
    hazard: Hazard | bool = True,
    rivals: Sequence[str] = tuple(RIVALS),
    seed: int = 0,
    settings: ImportanceSettings = BACKTEST_POINTS,
    progress: Progress | None = None,
) -> Backtest:
    """Scores the forecast of a run at earlier steps against the rows that came.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        origins: Shares of the rows after which it is forecast, in (0, 1).
        signal: "auto", "reward" (train) or "eval" (held-out).
        regimes: Regimes to average over.
        pool: Weight of the last value against the regimes: the shipped numbers (True), others, or none (False).
        hazard: Probability of events that no regime models, in the forecast of several regimes: the shipped numbers
            (True), others, or none (False).
        rivals: Names in `bayes_grpo.backtesting.rivals.RIVALS`.
        seed: Seed.
        settings: Sampler settings of the posteriors.
        progress: Called with a short phrase at every stage.

    Returns:
        The scores; origins that cannot be used are named in it.

    Raises:
        FitError: No such signal, or fewer than `MIN_BACKTEST_ROWS` rows.
        SettingError: An origin outside (0, 1), or an unknown rival.
    """
    if not origins or not all(0.0 < o < 1.0 for o in origins):
        raise SettingError(f"origins: expected shares of the rows between 0 and 1, found {tuple(origins)!r}")
    unknown = [name for name in rivals if name not in RIVALS]
    if unknown:
        raise SettingError(f"rivals: expected some of {', '.join(RIVALS)}, found {unknown[0]!r}")
    run = as_run(run)
    whole = rows_of(run, signal)
    if len(whole.y) < MIN_BACKTEST_ROWS:
        raise FitError(
            f"{run.source}: a backtest needs at least {MIN_BACKTEST_ROWS} rows of {whole.signal}, found "
            f"{len(whole.y)}; wait for more steps or log more often"
        )
    scores: list[Score] = []
    refused: list[str] = []
    for share in origins:

        def stage(phrase: str, share: float = share) -> None:
            if progress is not None:
                progress(f"{run.name}, origin {share:.0%}: {phrase}")

        part = seed_of(seed, "origin", share)
        try:
            origin = origin_of(run, whole, share)
            found = predicted(origin, part, regimes=regimes, settings=settings, pool=pool, progress=stage)
        except FitError as error:
            refused.append(f"{run.name}, origin {share:.0%}: {error}")
            continue
        scores += scores_at(origin, found, part, hazard=hazard, rivals=rivals, progress=stage)
    return Backtest(tuple(scores), tuple(refused))


def backtest_logs(
    runs: Sequence[RunLike], *, jobs: int = 1, progress: Progress | None = None, **options: Any
) -> Backtest:
    """Scores the forecast of many runs at earlier steps against the rows that came.

    Args:
        runs: The runs.
        jobs: Worker processes, with more than one of which the options have to be picklable.
        progress: Called with a short phrase at every stage; with worker processes after every run.
        **options: Keyword arguments of `bayes_grpo.backtest`, the same for all runs.

    Returns:
        The scores of all runs, in their order; a run that cannot be used is named in it.

    Raises:
        SettingError: An impossible option.
        WorkerError: A worker process ended before its task did, twice.
    """
    tell, parts = teller(progress), dict[int, Backtest]()
    with outcomes(partial(backtest, progress=tell if jobs == 1 else None, **options), runs, jobs=jobs) as found:
        for outcome in found:
            error = outcome.error
            if error is None:
                parts[outcome.place] = outcome.value
            elif isinstance(error, BayesGrpoError) and not isinstance(error, SettingError | ImportError | WorkerError):
                parts[outcome.place] = Backtest((), (str(error),))
            else:
                raise error
            if jobs != 1:
                tell(f"{len(parts)} of {len(runs)} logs")
    ordered = [parts[i] for i in sorted(parts)]
    return Backtest(tuple(s for p in ordered for s in p.scores), tuple(r for p in ordered for r in p.refused))


@dataclass(frozen=True, eq=False)
class Origin:
    """An earlier step of a log and the rows that came after it.

    Attributes:
        share: Share of the rows before it.
        basis: Inputs of the forecast, from the rows before it alone.
        future: Steps, windows and learning rates of the rows to predict, shape (h,) each.
        y: Their values, shape (h,).
        scale: Standard deviation of the whole curve.
    """

    share: float
    basis: Basis
    future: FutureRows
    y: np.ndarray
    scale: float


class Predicted(NamedTuple):
    """Predictions at an origin, before events.

    Attributes:
        paths: Regime or "level" → paths of the rows to come, shape (draws, h).
        average: Their average by weight, shape (draws, h).
        weights: Weights of the regimes, and of the level.
        features: Features that the level's weight depends on, shape (5,); None where it has none.
    """

    paths: dict[str, RewardPaths]
    average: RewardPaths
    weights: dict[str, float]
    features: np.ndarray | None


def origin_of(run: Run, whole: RowTable, share: float) -> Origin:
    """Splits a log at an origin; nothing before the origin depends on later rows.

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


def predicted(
    origin: Origin,
    seed: int,
    *,
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    settings: ImportanceSettings = BACKTEST_POINTS,
    pool: Pool | bool = True,
    progress: Progress | None = None,
) -> Predicted:
    """Predicts the rows after an origin by every regime and by their average; see `backtest` for the options."""
    past, reward = origin.basis.table, origin.basis.reward
    fitted = fit_regimes(
        origin.basis.rows,
        regimes,
        reward=reward,
        seed=seed,
        settings=settings,
        strict=False,
        progress=progress,
    )
    paths = {
        name: RewardPaths(*regime_paths(x, origin.future, DRAWS, seed_of(seed, "paths", name), reward, inside)[:3])
        for name, x, inside in ((k, x, fitted.bounded[k].share) for k, x in fitted.draws.items())
    }
    for name in (x if isinstance(x, str) else x.name for x in regimes):
        if name not in paths and "flat" in paths:
            paths[name] = paths["flat"]  # too few rows for this regime

    weights, features = fitted.weights, None
    found = pooled(pool, past, fitted, len(origin.y))
    if found is not None:
        weights, features = found
        level = level_paths(level_of(past.y), len(origin.y), DRAWS, seed_of(seed, "paths", LEVEL_NAME), reward)
        paths[LEVEL_NAME] = RewardPaths(level[0], level[1], level[2])
    return Predicted(paths, averaged(paths, weights, seed), weights, features)


def averaged(paths: Mapping[str, RewardPaths], weights: Mapping[str, float], seed: int) -> RewardPaths:
    """Paths of several forecasters, as many of each as its weight gives it."""
    parts = []
    for name, count in allot(DRAWS, weights).items():
        chosen = np.random.default_rng(seed_of(seed, "averaged", name)).choice(DRAWS, count, replace=False)
        parts.append([x[chosen] for x in paths[name]])
    return RewardPaths(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def with_hazard(origin: Origin, average: RewardPaths, hazard: Hazard, seed: int) -> np.ndarray:
    """Averaged rows with events that no regime models, shape (draws, h).

    Args:
        origin: Where the log is forecast from.
        average: Averaged paths.
        hazard: Probability of events.
        seed: Seed.
    """
    reward, moving = origin.basis.reward, np.flatnonzero(origin.future.rate > 0.0)
    state = origin_state(origin.basis.table.y, reward)
    now = np.full(len(average.latent), state.now)
    return hazard.met(state, len(moving), average, now, moving, reward, seed).paths.rows


def scores_at(
    origin: Origin,
    found: Predicted,
    seed: int,
    *,
    hazard: Hazard | bool = True,
    rivals: Sequence[str] = tuple(RIVALS),
    progress: Progress = lambda _: None,
) -> list[Score]:
    """Scores of the average, the regimes and the rivals on the rows after an origin.

    Args:
        origin: Where the log is forecast from.
        found: The forecast, before events.
        seed: Seed of the origin.
        hazard: As for `backtest`.
        rivals: As for `backtest`.
        progress: Called with the name of every rival.
    """
    past, average, y = origin.basis.table, found.average.rows, origin.y
    known = hazard_named(hazard, len(found.weights))
    if known is not None:
        average = with_hazard(origin, found.average, known, seed_of(seed, "events"))
    draws = {AVERAGED: average, **{name: paths.rows for name, paths in found.paths.items()}}
    for name in rivals:
        progress(name)
        draws[name] = RIVALS[name](past.step, past.y, origin.future.step).draws(DRAWS)
    kinds = {AVERAGED: "forecast", **dict.fromkeys(rivals, "rival")}
    return [
        Score(
            log=origin.basis.name,
            origin=origin.share,
            step=float(past.step[-1]),
            name=name,
            kind=kinds.get(name, "regime"),
            rows=len(y),
            crps=float(np.mean(crps(d, y))) / origin.scale,
            log_score=float(np.mean(log_score(d, y))) + math.log(origin.scale),
            coverage=float(np.mean(covered(d, y))),
            pit=tuple(float(v) for v in pit(d, y, np.random.default_rng(seed_of(seed, "pit", name)))),
            weight=found.weights.get(name, math.nan),
        )
        for name, d in draws.items()
    ]
