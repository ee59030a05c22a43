"""`backtest`: what the forecast would have said at earlier steps of a log, scored on the rows that came.

At every origin the laws are fitted to the rows before it alone, with priors from these rows alone, and every later
row is predicted. The rivals see the same rows. All steps ahead count alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bayes_grpo.backtesting.origins import DRAWS, Method, Origin, Predicted, origin_of, predicted, with_hazard
from bayes_grpo.backtesting.result import AVERAGED, Backtest, Score
from bayes_grpo.backtesting.rivals import DEFAULT_RIVALS, RIVALS
from bayes_grpo.backtesting.scores import covered, crps, log_score, pit
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.fits import FORECAST_REGIMES
from bayes_grpo.forecasting.hazard import Hazard, hazard_named
from bayes_grpo.forecasting.pool import Pool
from bayes_grpo.forecasting.priors import PriorsFor, forecast_priors
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.rows_of import rows_of

ORIGINS = (0.3, 0.5, 0.7)
"""Forecast origins as shares of the rows."""
MIN_BACKTEST_ROWS = 20
"""Fewer rows leave too little before the first origin and after the last."""
BACKTEST_POINTS = ImportanceSettings(effective=1000.0)
"""Points of a backtest's posteriors: hundreds of fits, of which only predictive draws are used."""


def backtest(
    run: RunLike,
    *,
    origins: Sequence[float] = ORIGINS,
    signal: str = "auto",
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    priors: PriorsFor = forecast_priors,
    pool: Pool | bool = True,
    hazard: Hazard | bool = True,
    rivals: Sequence[str] = DEFAULT_RIVALS,
    seed: int = 0,
    settings: ImportanceSettings | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Scores the forecast of a run at earlier steps against the rows that came.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        origins: Shares of the rows after which it is forecast, in (0, 1).
        signal: "auto", "reward" (train) or "eval" (held-out).
        regimes: Regimes to average over.
        priors: Prior overrides of each law for the rows before an origin.
        pool: Share of the level beside the laws: the shipped numbers (True), others, or laws alone (False).
        hazard: Probability of events that no law knows, in the forecast of several laws: the shipped numbers (True),
            others, or none (False).
        rivals: Names in `bayes_grpo.backtesting.rivals.RIVALS`; those that need no further package if not given.
        seed: Seed.
        settings: How many points the posteriors spend.
        progress: Called with a short phrase at every stage.

    Returns:
        The scores; origins that cannot be used are named in it.

    Raises:
        FitError: No such signal, or fewer than `MIN_BACKTEST_ROWS` rows.
        MissingExtraError: A rival's package is not installed.
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
    method = Method(regimes, priors, settings or BACKTEST_POINTS, pool)
    scores: list[Score] = []
    refused: list[str] = []
    for share in origins:

        def stage(phrase: str, share: float = share) -> None:
            if progress is not None:
                progress(f"{run.name}, origin {share:.0%}: {phrase}")

        part = seed_of(seed, "origin", share)
        try:
            origin = origin_of(run, whole, share)
            found = predicted(origin, method, part, stage)
        except FitError as error:
            refused.append(f"{run.name}, origin {share:.0%}: {error}")
            continue
        scores += scores_at(origin, found, part, hazard=hazard, rivals=rivals, progress=stage)
    return Backtest(tuple(scores), tuple(refused))


def scores_at(
    origin: Origin,
    found: Predicted,
    seed: int,
    *,
    hazard: Hazard | bool = True,
    rivals: Sequence[str] = DEFAULT_RIVALS,
    progress: Progress = lambda _: None,
) -> list[Score]:
    """Scores of the average, the regimes and the rivals on the rows after an origin.

    Args:
        origin: Where the log is forecast from.
        found: The forecast, before events.
        seed: Seed of the origin.
        hazard: As for `backtest`.
        rivals: Names of the rivals.
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
