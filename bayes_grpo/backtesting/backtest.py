"""`backtest`: what the forecast would have said at earlier steps of a log, scored on the rows that came.

At every origin the laws are fitted to the rows before it alone, with priors from these rows alone, and every later
row is predicted. The rivals see the same rows. All steps ahead count alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.backtesting.pieces import Piece, piece_of
from bayes_grpo.backtesting.result import AVERAGED, Backtest, Score
from bayes_grpo.backtesting.rivals import RIVALS
from bayes_grpo.backtesting.scores import covered, crps, energy, log_score, pit
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import Care
from bayes_grpo.forecasting.basis import MIN_FORECAST_ROWS, Basis
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_regimes
from bayes_grpo.forecasting.level import LEVEL_NAME, level_of, level_paths
from bayes_grpo.forecasting.paths import allot, regime_paths
from bayes_grpo.forecasting.pool import Pool, pooled
from bayes_grpo.forecasting.priors import PriorsFor, forecast_priors
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.future import FutureRows
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import schedule_of
from bayes_grpo.rows.table import RowTable

ORIGINS = (0.3, 0.5, 0.7)
"""Forecast origins as shares of the rows."""
MIN_ROWS = 20
"""Fewer rows leave too little before the first origin and after the last."""
BACKTEST_CARE = Care(effective=1000.0)
"""Points of a backtest's posteriors: hundreds of fits, of which only predictive draws are used."""
_DRAWS = 1000


def backtest(
    run: Run,
    *,
    origins: Sequence[float] = ORIGINS,
    signal: str = "auto",
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    priors: PriorsFor = forecast_priors,
    pool: Pool | bool = True,
    rivals: Sequence[str] = tuple(RIVALS),
    seed: int = 0,
    care: Care | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Scores the forecast of a run at earlier steps against the rows that came.

    Args:
        run: The run.
        origins: Shares of the rows after which it is forecast, in (0, 1).
        signal: "auto", "reward" (train) or "eval" (held-out).
        regimes: Regimes to average over.
        priors: Prior overrides of each law for the rows before an origin.
        pool: Share of the level beside the laws: the shipped numbers (True), others, or laws alone (False).
        rivals: Names in `bayes_grpo.backtesting.rivals.RIVALS`.
        seed: Seed.
        care: How many points the posteriors spend.
        progress: Called with a short phrase at every stage.

    Returns:
        The scores; origins that cannot be used are named in it.

    Raises:
        FitError: No such signal, or fewer than `MIN_ROWS` rows.
        MissingExtraError: A rival's package is not installed.
        SettingError: An origin outside (0, 1), or an unknown rival.
    """
    if not origins or not all(0.0 < o < 1.0 for o in origins):
        raise SettingError(f"origins: expected shares of the rows between 0 and 1, found {tuple(origins)!r}")
    unknown = [name for name in rivals if name not in RIVALS]
    if unknown:
        raise SettingError(f"rivals: expected some of {', '.join(RIVALS)}, found {unknown[0]!r}")
    whole = rows_of(run, signal)
    if len(whole.y) < MIN_ROWS:
        raise FitError(
            f"{run.source}: a backtest needs at least {MIN_ROWS} rows of {whole.signal}, found {len(whole.y)}; "
            "wait for more steps or log more often"
        )
    laws = _Laws(regimes, priors, care or BACKTEST_CARE, pool)
    scores: list[Score] = []
    pieces: list[Piece] = []
    refused: list[str] = []
    for share in origins:

        def stage(phrase: str, share: float = share) -> None:
            if progress is not None:
                progress(f"{run.name}, origin {share:.0%}: {phrase}")

        part = seed_of(seed, "origin", share)
        try:
            origin = _origin_of(run, whole, share)
            draws, weights, piece = _predicted(origin, laws, part, stage)
        except FitError as error:
            refused.append(f"{run.name}, origin {share:.0%}: {error}")
            continue
        pieces += [] if piece is None else [piece]
        past = origin.basis.table
        for name in rivals:
            stage(name)
            draws[name] = RIVALS[name](past.step, past.y, origin.future.step).draws(_DRAWS)
        kinds = {AVERAGED: "forecast", **dict.fromkeys(rivals, "rival")}
        for name, d in draws.items():
            score = _score(origin, name, kinds.get(name, "regime"), d, seed_of(part, "pit", name))
            scores.append(replace(score, weight=weights.get(name, math.nan)))
    return Backtest(tuple(scores), tuple(refused), tuple(pieces))


@dataclass(frozen=True, eq=False)
class _Laws:
    """The laws that are averaged, and how they are fitted."""

    regimes: Sequence[str | Regime]
    priors: PriorsFor
    care: Care
    pool: Pool | bool


@dataclass(frozen=True, eq=False)
class _Origin:
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


def _origin_of(run: Run, whole: RowTable, share: float) -> _Origin:
    """Rows as the log stood at the origin, where nothing knows what came later, and the rows that came."""
    n = round(share * len(whole.y))
    if n < MIN_FORECAST_ROWS - 2:
        raise FitError(f"{n} rows are too few to forecast from; at least {MIN_FORECAST_ROWS - 2} are needed")
    past = rows_of(run.until(float(whole.step[n - 1])), "reward" if whole.signal == "reward" else "eval")
    settings = dict(run.settings.items())
    ahead, step = schedule_of(past, settings), whole.step[n:]
    before = np.concatenate([past.step[-1:], step[:-1]])
    return _Origin(
        share=share,
        basis=Basis(past, reward_range(past, settings), ahead, (), run.name),
        future=FutureRows(step, whole.window[n:], ahead.mean(step, step - before), whole.weight[n:]),
        y=whole.y[n:],
        scale=whole.scale,
    )


def _predicted(
    origin: _Origin, laws: _Laws, seed: int, tell: Progress
) -> tuple[dict[str, np.ndarray], dict[str, float], Piece | None]:
    """Predictive draws of every row after the origin, by forecaster, the weights of the regimes, and a pool's piece."""
    past, reward = origin.basis.table, origin.basis.reward
    fitted = fit_regimes(
        past,
        laws.regimes,
        reward=reward,
        priors=laws.priors,
        seed=seed,
        care=laws.care,
        strict=False,
        progress=tell,
    )
    draws = {
        name: regime_paths(regime, past, origin.future, _DRAWS, seed_of(seed, "paths", name), reward)[2]
        for name, regime in fitted.draws.items()
    }
    for name in (x if isinstance(x, str) else x.name for x in laws.regimes):
        if name not in draws and "flat" in draws:
            draws[name] = draws["flat"]  # too few rows for this law: without a trend is what remains of it

    def averaged(weights: Mapping[str, float]) -> np.ndarray:
        parts = [
            draws[name][np.random.default_rng(seed_of(seed, "averaged", name)).choice(_DRAWS, count, replace=False)]
            for name, count in allot(_DRAWS, weights).items()
        ]
        return np.concatenate(parts)

    found = pooled(laws.pool, past, fitted, len(origin.y))
    if found is None:
        return {AVERAGED: averaged(fitted.weights), **draws}, fitted.weights, None
    level = level_paths(level_of(past.y), len(origin.y), _DRAWS, seed_of(seed, "paths", LEVEL_NAME), reward)[2]
    piece = piece_of(
        origin.basis.name, origin.share, found.features, averaged(fitted.weights), level, origin.y, origin.scale
    )
    draws[LEVEL_NAME] = level
    return {AVERAGED: averaged(found.weights), **draws}, found.weights, piece


def _score(origin: _Origin, name: str, kind: str, draws: np.ndarray, seed: int) -> Score:
    y, scale, basis = origin.y, origin.scale, origin.basis
    return Score(
        log=basis.name,
        origin=origin.share,
        step=float(basis.table.step[-1]),
        name=name,
        kind=kind,
        rows=len(y),
        crps=float(np.mean(crps(draws, y))) / scale,
        log_score=float(np.mean(log_score(draws, y))) + math.log(scale),
        coverage=float(np.mean(covered(draws, y))),
        pit=tuple(float(v) for v in pit(draws, y, np.random.default_rng(seed))),
        weight=math.nan,
        energy=math.nan if kind == "rival" else energy(draws, y) / scale,
    )
