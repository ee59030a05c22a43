"""`backtest`: the forecast from earlier steps of a log, scored on the rows that came.

At every origin the forecast is made as `forecast` makes it, from the rows before the origin alone, and every later row
is predicted. The last-value forecaster alone is the baseline. All rows count alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bayes_grpo.backtesting.scores import FORECAST, LAST_VALUE, Backtest, Score, covered, crps, log_score
from bayes_grpo.common.errors import BayesGrpoError, FitError, SettingError
from bayes_grpo.common.progress import Progress, or_silent
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_ensemble, trusted
from bayes_grpo.forecasting.forecast import forecast_of_regimes
from bayes_grpo.forecasting.inputs import inputs_of_run
from bayes_grpo.forecasting.level import level_of, level_paths
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.rows_of import rows_of, window_weight
from bayes_grpo.rows.schedule import FutureGrid, RemainingRate, grid_at
from bayes_grpo.rows.series import Series

ORIGINS = (0.3, 0.5, 0.7)
"""Forecast origins as shares of the rows."""
MIN_BACKTEST_ROWS = 20
"""Fewer rows leave too few before the first origin and after the last."""
POINTS = ImportanceSettings(effective=1000.0)
"""Only predictive draws are used."""
DRAWS = 1000
"""Predictive draws of a forecaster."""


def backtest(
    run: RunLike,
    *,
    origins: Sequence[float] = ORIGINS,
    signal: str = "auto",
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Backtest:
    """Scores the forecast of a run at earlier steps against the rows that came.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        origins: Shares of the rows after which it is forecast, in (0, 1).
        signal: "auto", "reward" (train) or "eval" (evaluations).
        regimes: Regimes to average over.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        The scores; origins that cannot be used are named in it.

    Raises:
        FitError: No such signal, or fewer than `MIN_BACKTEST_ROWS` rows.
        SettingError: An origin outside (0, 1).
    """
    if not origins or not all(0.0 < o < 1.0 for o in origins):
        raise SettingError(f"origins: expected shares of the rows between 0 and 1, found {tuple(origins)!r}")
    run = as_run(run)
    whole = rows_of(run, signal)
    if len(whole.y) < MIN_BACKTEST_ROWS:
        raise FitError(
            f"{run.source}: a backtest needs at least {MIN_BACKTEST_ROWS} rows of {whole.signal}, found "
            f"{len(whole.y)}; wait for more steps or log more often"
        )
    progress = or_silent(progress)
    scores: list[Score] = []
    refused: list[str] = []
    for share in origins:
        where = f"{run.name}, origin {share:.0%}"
        progress(where)
        try:
            scores += _scores_at(run, whole, share, regimes, seed_of(seed, "origin", share))
        except FitError as error:
            refused.append(f"{where}: {error}")
    return Backtest(tuple(scores), tuple(refused))


def backtest_logs(
    runs: Sequence[RunLike],
    *,
    signal: str = "auto",
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Backtest:
    """Scores the forecast of many runs at earlier steps against the rows that came; arguments as `backtest`.

    Returns:
        The scores of all runs, in their order; a run that cannot be used is named in it.

    Raises:
        SettingError: An impossible option.
    """
    scores: list[Score] = []
    refused: list[str] = []
    for run in runs:
        try:
            found = backtest(run, signal=signal, regimes=regimes, seed=seed, progress=progress)
        except SettingError:
            raise
        except BayesGrpoError as error:
            found = Backtest((), (str(error),))
        scores += found.scores
        refused += found.refused
    return Backtest(tuple(scores), tuple(refused))


def _scores_at(run: Run, whole: Series, share: float, regimes: Sequence[str | Regime], seed: int) -> list[Score]:
    """Scores of the forecast and of the last value at an origin; nothing before it depends on later rows."""
    n = max(1, round(share * len(whole.y)))
    inputs = inputs_of_run(run.until(float(whole.step[n - 1])), "reward" if whole.signal == "reward" else "eval")
    fitted = fit_ensemble(inputs.table, regimes, reward=inputs.reward, seed=seed, settings=POINTS, strict=False)
    ahead = rows_after(whole, n, inputs.ahead)
    made = forecast_of_regimes(inputs, trusted(fitted), ahead, draws=DRAWS, seed=seed)
    last, _ = level_paths(level_of(inputs.table.y), len(whole.y) - n, DRAWS, seed_of(seed, LAST_VALUE), inputs.reward)
    y = whole.y[n:]
    return [
        Score(
            log=run.name,
            origin=share,
            step=float(inputs.table.step[-1]),
            name=name,
            rows=len(y),
            crps=float(np.mean(crps(rows, y))) / whole.scale,
            log_score=float(np.mean(log_score(rows, y))) + math.log(whole.scale),
            coverage=float(np.mean(covered(rows, y))),
        )
        for name, rows in ((FORECAST, made.rows), (LAST_VALUE, last.rows))
    ]


def rows_after(whole: Series, n: int, ahead: RemainingRate) -> FutureGrid:
    """The rows of a log after its first n, as rows of a forecast.

    Args:
        whole: Rows of the log.
        n: Rows before the forecast.
        ahead: Learning rate from there on, as the rows before say.
    """
    grid = grid_at(whole.before(n), whole.step[n:], ahead)
    window, weight = whole.window[n:], window_weight(whole.window)[n:]
    return grid._replace(window=np.concatenate([[0.0], window]), weight=np.concatenate([[1.0], weight]))
