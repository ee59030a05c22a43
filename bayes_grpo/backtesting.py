"""Forecasts of a log's own past, scored.

At every origin the forecast is made as `forecast` makes it, from the rows before the origin alone, and every later row
is predicted. The last-value forecaster alone is the baseline. All rows count alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.intervals import LEVEL, band
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.common.text import counted
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_ensemble, trusted
from bayes_grpo.forecasting.forecast import forecast_of_regimes
from bayes_grpo.forecasting.inputs import inputs_of_run
from bayes_grpo.forecasting.level import level_of, level_paths
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.rows_of import rows_of, window_weight
from bayes_grpo.rows.schedule import grid_at
from bayes_grpo.rows.series import Series

if TYPE_CHECKING:
    import pandas as pd

_FAR = 1e-3
"""Share of a kernel's weight with a heavy tail, in the log score."""


def crps(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of draws, (m, h), for ``y``, (h,), in its unit: (h,); smaller is better.

    E|X − y| − E|X − X'|/2 with the second term from the sorted draws and without its bias
    (Gneiting and Raftery 2007, https://doi.org/10.1198/016214506000001437; Zamo and Naveau 2018,
    https://doi.org/10.1007/s11004-017-9709-7).
    """
    x = np.sort(np.asarray(draws, float), axis=0)
    m = len(x)
    spread = (2.0 * np.arange(1, m + 1) - m - 1.0) @ x / (m * (m - 1.0))
    return np.mean(np.abs(x - y), axis=0) - spread


def log_score(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log density of ``y``, (h,), under a normal kernel estimate of draws, (m, h), shape (h,); larger is better.

    The bandwidth is Silverman's rule, 0.9 min(sd, IQR/1.34) m^(−1/5)
    (Silverman 1986, https://doi.org/10.1201/9781315140919). A share `_FAR` of every kernel is Cauchy's: draws
    cannot tell how improbable a row far from all of them is, and a score of −10¹⁸ would dominate the mean.
    """
    x = np.asarray(draws, float)
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    spread = np.minimum(x.std(axis=0), (high - low) / 1.34)
    width = np.maximum(0.9 * spread * len(x) ** -0.2, 1e-12 * np.maximum(np.abs(y), 1.0))
    away = ((y - x) / width) ** 2
    near = -0.5 * away - 0.5 * np.log(2.0 * np.pi) + np.log1p(-_FAR)
    terms = np.logaddexp(near, np.log(_FAR) - np.log(np.pi) - np.log1p(away))
    top = terms.max(axis=0)
    return top + np.log(np.mean(np.exp(terms - top), axis=0)) - np.log(width)


def covered(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Mask of ``y`` inside the equal-tailed interval of the draws, shape (h,)."""
    low, _, high = band(draws)
    return (y >= low) & (y <= high)


SAME_ERROR = 0.05
"""Part by which two errors may differ and count as one."""
FEW_COVERED = 0.15
"""Share of the rows by which the coverage may lie below its level."""
FORECAST, LAST_VALUE = "forecast", "last value"
"""The two forecasters that are scored."""


@dataclass(frozen=True)
class Score:
    """One forecaster at one origin of one log.

    Attributes:
        log: Name of the run.
        origin: Share of the rows before the forecast.
        step: Step of the last row before it.
        name: "forecast" or "last value".
        rows: Predicted rows.
        crps: Mean CRPS of these rows over the standard deviation of the whole curve.
        log_score: Mean log score of these rows plus the log of that standard deviation, so that units cancel.
        coverage: Share of the rows inside the 90% interval.
    """

    log: str
    origin: float
    step: float
    name: str
    rows: int
    crps: float
    log_score: float
    coverage: float


@dataclass(frozen=True)
class ScoreLine:
    """One forecaster over all logs and origins of a backtest: means of its scores, and the number of these cases.

    ``by_origin`` is origin → (mean CRPS, mean coverage).
    """

    name: str
    crps: float
    by_origin: dict[float, tuple[float, float]]
    log_score: float
    coverage: float
    cases: int


@dataclass(frozen=True)
class Backtest(Result):
    """Scores of a backtest.

    Attributes:
        scores: One entry a log, origin and forecaster.
        refused: Logs and origins that could not be used, and why.
    """

    scores: tuple[Score, ...]
    refused: tuple[str, ...] = ()

    interval_level = LEVEL
    also_in_json = ("sentence", "verdict", "too_narrow", "ratio_to_last_value", "interval_level", "table")

    @property
    def table(self) -> tuple[ScoreLine, ...]:
        """The table: the forecast and the last value; empty where nothing was scored."""
        own = {name: [s for s in self.scores if s.name == name] for name in (FORECAST, LAST_VALUE)}
        return tuple(line_of(name, scores) for name, scores in own.items() if scores)

    @property
    def ratio_to_last_value(self) -> float:
        """Mean CRPS of the forecast over that of the last value; NaN where nothing was scored."""
        crps = {x.name: x.crps for x in self.table}
        return crps[FORECAST] / crps[LAST_VALUE] if crps else math.nan

    @property
    def clauses(self) -> tuple[str, str]:
        """The result in words: whether the forecast was closer than the last value, and what its intervals covered."""
        if not self.table:
            return "no origin of any log could be used", "nothing was scored"
        ours, last = self.table
        how = {
            "better": "came closer to the later rows than",
            "equal": "came as close to the later rows as",
            "worse": "missed the later rows by more than",
        }[self.verdict]
        narrow = ", so they are too narrow here" if self.too_narrow else ""
        covered = f"its {LEVEL:.0%} intervals covered {ours.coverage:.0%} of these rows"
        scores = f"mean CRPS {ours.crps:.3f} and {last.crps:.3f} of the curve's standard deviation"
        return (
            f"the forecast {how} the last value: {self.ratio_to_last_value:.2f} times its error",
            f"{covered}{narrow} ({counted(ours.cases, 'forecast')}; {scores})",
        )

    @property
    def verdict(self) -> Literal["better", "equal", "worse"]:
        """Forecast against last value by mean CRPS; "equal" within `SAME_ERROR`, or where nothing was scored."""
        ratio = self.ratio_to_last_value
        if ratio < 1.0 - SAME_ERROR:
            return "better"
        return "worse" if ratio > 1.0 + SAME_ERROR else "equal"

    @property
    def too_narrow(self) -> bool:
        """True if the intervals covered far fewer rows than they should."""
        return bool(self.table) and self.table[0].coverage < LEVEL - FEW_COVERED

    @property
    def sentence(self) -> str:
        """The result in words."""
        return f"{'; '.join(self.clauses)}."

    def to_frame(self) -> pd.DataFrame:
        """One row a log, origin and forecaster: the fields of `Score`."""
        return frame_of(self.scores, ["log", "origin", "name"], Score.__dataclass_fields__)


def line_of(name: str, scores: Sequence[Score]) -> ScoreLine:
    """One forecaster's scores, averaged over logs and origins."""

    def mean(field: str, of: Sequence[Score] = scores) -> float:
        return float(np.mean([getattr(s, field) for s in of]))

    at = {o: [s for s in scores if s.origin == o] for o in sorted({s.origin for s in scores})}
    return ScoreLine(
        name=name,
        crps=mean("crps"),
        by_origin={o: (mean("crps", own), mean("coverage", own)) for o, own in at.items()},
        log_score=mean("log_score"),
        coverage=mean("coverage"),
        cases=len(scores),
    )


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
    regimes: Sequence[str | Regime] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Backtest:
    """Scores the forecast of a run at earlier steps against the rows that came.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        origins: Shares of the rows after which it is forecast, in (0, 1).
        signal: "auto", "reward" (train) or "eval" (evaluations).
        regimes: Regimes to average over; None for those of a forecast.
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
    rows = rows_of(run, signal)
    if len(rows.y) < MIN_BACKTEST_ROWS:
        raise FitError(
            f"{run.source}: a backtest needs at least {MIN_BACKTEST_ROWS} rows of {rows.signal}, found "
            f"{len(rows.y)}; wait for more steps or log more often"
        )
    names = FORECAST_REGIMES if regimes is None else regimes
    progress = or_silent(progress)
    scores: list[Score] = []
    refused: list[str] = []
    for share in origins:
        where = f"{run.name}, origin {share:.0%}"
        progress(where)
        try:
            scores += _scores_at(run, rows, share, names, seed_of(seed, "origin", share))
        except FitError as error:
            refused.append(f"{where}: {error}")
    return Backtest(tuple(scores), tuple(refused))


def _scores_at(run: Run, whole: Series, share: float, regimes: Sequence[str | Regime], seed: int) -> list[Score]:
    """Scores of the forecast and of the last value at an origin; nothing before it depends on later rows."""
    n = max(1, round(share * len(whole.y)))
    inputs = inputs_of_run(run.until(float(whole.step[n - 1])), "reward" if whole.signal == "reward" else "eval")
    fitted = fit_ensemble(inputs.table, regimes, reward=inputs.reward, seed=seed, settings=POINTS, strict=False)
    ahead = grid_at(whole.before(n), whole.step[n:], inputs.ahead)._replace(
        window=np.concatenate([[0.0], whole.window[n:]]),
        weight=np.concatenate([[1.0], window_weight(whole.window)[n:]]),
    )
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
