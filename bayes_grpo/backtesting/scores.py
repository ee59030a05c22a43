"""Scores of predictive draws (CRPS, log score, coverage), and their table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.common.text import counted

if TYPE_CHECKING:
    import pandas as pd


_FAR = 1e-3
"""Share of a kernel's weight with a heavy tail, in the log score."""


def crps(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of draws, in the unit of ``y``; smaller is better.

    E|X − y| − E|X − X'|/2 with the second term from the sorted draws and without its bias
    (Gneiting and Raftery 2007, https://doi.org/10.1198/016214506000001437; Zamo and Naveau 2018,
    https://doi.org/10.1007/s11004-017-9709-7).

    Args:
        draws: Predictive draws, shape (m, h).
        y: What was observed, shape (h,).

    Returns:
        Shape (h,).
    """
    x = np.sort(np.asarray(draws, float), axis=0)
    m = len(x)
    spread = (2.0 * np.arange(1, m + 1) - m - 1.0) @ x / (m * (m - 1.0))
    return np.mean(np.abs(x - y), axis=0) - spread


def log_score(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log density of ``y`` under a normal kernel estimate of the draws; larger is better.

    The bandwidth is Silverman's rule, 0.9 min(sd, IQR/1.34) m^(−1/5)
    (Silverman 1986, https://doi.org/10.1201/9781315140919). A share `_FAR` of every kernel is Cauchy's: draws
    cannot tell how improbable a row far from all of them is, and a score of −10¹⁸ would dominate the mean.

    Args:
        draws: Predictive draws, shape (m, h).
        y: What was observed, shape (h,).

    Returns:
        Shape (h,).
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


def covered(draws: np.ndarray, y: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """Whether ``y`` lies inside the equal-tailed interval of the draws, shape (h,)."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return (y >= low) & (y <= high)


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
    """One forecaster over all logs and origins of a backtest.

    Attributes:
        name: "forecast" or "last value".
        crps: Mean over logs and origins.
        by_origin: Origin → (mean CRPS, mean coverage).
        log_score: Mean log score.
        coverage: Mean coverage of the 90% interval.
        cases: Logs times origins.
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
    also_in_json = ("sentence", "ratio_to_last_value", "interval_level", "table")

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
    def sentence(self) -> str:
        """The result in words."""
        if not self.table:
            return "no origin of any log could be used; nothing was scored."
        ours, last = self.table
        return (
            f"mean CRPS {ours.crps:.3f} of the curve's standard deviation, {self.ratio_to_last_value:.2f} times that "
            f"of the last value ({last.crps:.3f}); the {LEVEL:.0%} intervals covered {ours.coverage:.0%} of the rows "
            f"to come ({counted(ours.cases, 'forecast')})."
        )

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
