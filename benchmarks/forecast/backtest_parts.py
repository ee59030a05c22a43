"""The forecast of a log at earlier steps, taken apart: every regime, the last value, their average, and rivals.

The package's own `backtest` scores the forecast as a whole; here each part of it is scored, and numbers of the pool
and of the event rates are learned from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.backtesting import DRAWS, POINTS, Score, ScoreLine, covered, crps, line_of, log_score
from bayes_grpo.backtesting import FORECAST as AVERAGED
from bayes_grpo.common.errors import FitError
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.events import EventRates, RewardPaths, origin_state, shipped_event_rates
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_ensemble
from bayes_grpo.forecasting.inputs import MIN_FORECAST_ROWS, ForecastInputs
from bayes_grpo.forecasting.level import LEVEL_NAME, level_of, level_paths
from bayes_grpo.forecasting.mixture import allot, regime_paths
from bayes_grpo.forecasting.pool import pool_features, shipped_pool
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of, window_weight
from bayes_grpo.rows.schedule import FutureGrid, schedule_of
from bayes_grpo.rows.series import Series
from benchmarks.forecast.rivals import RIVALS, SIMPLE


@dataclass(frozen=True, eq=False)
class Origin:
    """An earlier step of a log and the rows that came after it.

    Attributes:
        share: Share of the rows before it.
        inputs: Inputs of the forecast, from the rows before it alone.
        future: Steps, windows and learning rates of the rows to predict, shape (h,) each.
        y: Their values, shape (h,).
        scale: Standard deviation of the whole curve.
    """

    share: float
    inputs: ForecastInputs
    future: FutureGrid
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


def origin_of(run: Run, whole: Series, share: float) -> Origin:
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
        inputs=ForecastInputs(past, reward_range(past.y, settings), ahead, (), run.name, settings),
        future=FutureGrid(step, whole.window[n:], ahead.mean(step, step - before), window_weight(whole.window)[n:]),
        y=whole.y[n:],
        scale=whole.scale,
    )


def predicted(
    origin: Origin,
    seed: int,
    *,
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    settings: ImportanceSettings = POINTS,
) -> Predicted:
    """Predicts the rows after an origin by every regime and by their average."""
    past, reward = origin.inputs.table, origin.inputs.reward
    fitted = fit_ensemble(
        origin.inputs.table,
        regimes,
        reward=reward,
        seed=seed,
        settings=settings,
        strict=False,
    )
    paths = {
        name: regime_paths(x, origin.future, DRAWS, seed_of(seed, "paths", name), reward, fitted.bounded[name].share)[0]
        for name, x in fitted.draws.items()
    }
    for name in (x if isinstance(x, str) else x.name for x in regimes):
        if name not in paths and "flat" in paths:
            paths[name] = paths["flat"]  # too few rows for this regime

    weights, features = fitted.weights, None
    if len(weights) > 1:
        features = pool_features(past, fitted.log_evidence, fitted.trending, len(origin.y))
        share = shipped_pool().share(features)
        weights = {k: (1.0 - share) * w for k, w in weights.items()} | {LEVEL_NAME: share}
        part = seed_of(seed, "paths", LEVEL_NAME)
        paths[LEVEL_NAME] = level_paths(level_of(past.y), len(origin.y), DRAWS, part, reward)[0]
    return Predicted(paths, averaged(paths, weights, seed), weights, features)


def averaged(paths: Mapping[str, RewardPaths], weights: Mapping[str, float], seed: int) -> RewardPaths:
    """Paths of several forecasters, as many of each as its weight gives it."""
    parts = []
    for name, count in allot(DRAWS, weights).items():
        chosen = np.random.default_rng(seed_of(seed, "averaged", name)).choice(DRAWS, count, replace=False)
        parts.append([x[chosen] for x in paths[name]])
    return RewardPaths(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def with_hazard(origin: Origin, average: RewardPaths, rates: EventRates, seed: int) -> np.ndarray:
    """Averaged rows with events that no regime models, shape (draws, h).

    Args:
        origin: Where the log is forecast from.
        average: Averaged paths.
        rates: Probability of events.
        seed: Seed.
    """
    reward, moving = origin.inputs.reward, np.flatnonzero(origin.future.rate > 0.0)
    state = origin_state(origin.inputs.table.y, reward)
    now = np.full(len(average.latent), state.now)
    return rates.apply(state, len(moving), average, now, moving, reward, seed)[0].rows


def scores_at(
    origin: Origin,
    found: Predicted,
    seed: int,
    *,
    rivals: Sequence[str] = SIMPLE,
) -> list[PartScore]:
    """Scores of the average, the regimes and the rivals on the rows after an origin.

    Args:
        origin: Where the log is forecast from.
        found: The forecast, before events.
        seed: Seed of the origin.
        rivals: Names in `benchmarks.forecast.rivals.RIVALS`.
    """
    past, average, y = origin.inputs.table, found.average.rows, origin.y
    if len(found.weights) > 1:
        average = with_hazard(origin, found.average, shipped_event_rates(), seed_of(seed, "events"))
    draws = {AVERAGED: average, **{name: paths.rows for name, paths in found.paths.items()}}
    for name in rivals:
        draws[name] = RIVALS[name](past.step, past.y, origin.future.step).draws(DRAWS)
    kinds = {AVERAGED: "forecast", **dict.fromkeys(rivals, "rival")}
    return [
        PartScore(
            log=origin.inputs.name,
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


def pit(draws: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Probability integral transform: share of draws below ``y``, ties and the gap split at random, shape (h,).

    Uniform where the forecast is calibrated (Gneiting, Balabdaoui and Raftery 2007,
    https://doi.org/10.1111/j.1467-9868.2007.00587.x).
    """
    x = np.asarray(draws, float)
    below, equal = np.sum(x < y, axis=0), np.sum(x == y, axis=0)
    return (below + rng.uniform(size=len(y)) * (equal + 1)) / (len(x) + 1)


@dataclass(frozen=True)
class PartScore(Score):
    """One forecaster at one origin of one log.

    Attributes:
        kind: "forecast", "regime" (the level is one here) or "rival".
        pit: Probability integral transform of the rows.
        weight: Weight of a regime in the averaged forecast; NaN otherwise.
    """

    kind: str
    pit: tuple[float, ...]
    weight: float = math.nan


@dataclass(frozen=True)
class PartLine(ScoreLine):
    """One forecaster over all logs and origins.

    Attributes:
        kind: "forecast", "regime" or "rival".
        weight: Mean weight of a regime in the averaged forecast; NaN otherwise.
    """

    kind: str
    weight: float


@dataclass(frozen=True)
class PartScores:
    """Scores of the forecast and its parts, one entry a log, origin and forecaster."""

    scores: tuple[PartScore, ...]

    @property
    def lines(self) -> tuple[PartLine, ...]:
        """The table: the averaged forecast first, then regimes and rivals, the best first.

        Only cases that every forecaster has count, so that all are compared on the same rows.
        """
        names = {s.name: s.kind for s in self.scores}
        seen: dict[tuple[str, float], set[str]] = {}
        for s in self.scores:
            seen.setdefault((s.log, s.origin), set()).add(s.name)
        whole = {case for case, found in seen.items() if len(found) == len(names)}
        order = {"forecast": 0, "regime": 1, "rival": 2}
        lines = [_line(n, k, [s for s in self.scores if s.name == n and (s.log, s.origin) in whole])
                 for n, k in names.items()] if whole else []  # fmt: skip
        return tuple(sorted(lines, key=lambda x: (order[x.kind], x.crps)))

    @property
    def ratio(self) -> float:
        """Mean CRPS of the averaged forecast over that of the best rival; NaN without rivals."""
        rivals = [x.crps for x in self.lines if x.kind == "rival"]
        ours = [x.crps for x in self.lines if x.kind == "forecast"]
        return ours[0] / min(rivals) if rivals and ours else math.nan

    def pit(self) -> np.ndarray:
        """Probability integral transforms of all rows that the averaged forecast predicted."""
        return np.array([v for s in self.scores if s.name == AVERAGED for v in s.pit])


def _line(name: str, kind: str, scores: list[PartScore]) -> PartLine:
    weights = np.array([s.weight for s in scores])  # NaN where a regime had too few rows
    weight = math.nan if np.isnan(weights).all() else float(np.nan_to_num(weights).mean())
    return PartLine(**vars(line_of(name, scores)), kind=kind, weight=weight)
