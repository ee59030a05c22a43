"""Scores of predictive draws (CRPS, log score, coverage, probability integral transform), and their table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.results import Result, fields_of, frame_of

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


def pit(draws: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Probability integral transform: share of draws below ``y``, ties and the gap split at random, shape (h,).

    Uniform where the forecast is calibrated (Gneiting, Balabdaoui and Raftery 2007,
    https://doi.org/10.1111/j.1467-9868.2007.00587.x).
    """
    x = np.asarray(draws, float)
    below, equal = np.sum(x < y, axis=0), np.sum(x == y, axis=0)
    return (below + rng.uniform(size=len(y)) * (equal + 1)) / (len(x) + 1)


AVERAGED = "forecast"
"""Name of the averaged forecast among regimes and rivals."""


@dataclass(frozen=True)
class Score:
    """One forecaster at one origin of one log.

    Attributes:
        log: Name of the run.
        origin: Share of the rows before the forecast.
        step: Step of the last row before it.
        name: "forecast", a regime or a rival.
        kind: "forecast", "regime" (the level is one here) or "rival".
        rows: Predicted rows.
        crps: Mean CRPS of these rows over the standard deviation of the whole curve.
        log_score: Mean log score of these rows plus the log of that standard deviation, so that units cancel.
        coverage: Share of the rows inside the 90% interval.
        pit: Probability integral transform of the rows.
        weight: Weight of a regime in the averaged forecast; NaN otherwise.
    """

    log: str
    origin: float
    step: float
    name: str
    kind: str
    rows: int
    crps: float
    log_score: float
    coverage: float
    pit: tuple[float, ...]
    weight: float = math.nan


@dataclass(frozen=True)
class ScoreLine:
    """One forecaster over all logs and origins of a backtest.

    Attributes:
        name: "forecast", a regime or a rival.
        kind: "forecast", "regime" or "rival".
        crps: Mean over logs and origins.
        by_origin: Origin → (mean CRPS, mean coverage).
        log_score: Mean log score.
        coverage: Mean coverage of the 90% interval.
        cases: Logs times origins.
        weight: Mean weight of a regime in the averaged forecast; NaN otherwise.
    """

    name: str
    kind: str
    crps: float
    by_origin: dict[float, tuple[float, float]]
    log_score: float
    coverage: float
    cases: int
    weight: float


@dataclass(frozen=True)
class Backtest(Result):
    """Scores of a backtest.

    Attributes:
        scores: One entry a log, origin and forecaster.
        refused: Logs and origins that could not be used, and why.
    """

    scores: tuple[Score, ...]
    refused: tuple[str, ...] = ()

    in_json = (
        "sentence",
        ("ratio_to_best_rival", "ratio"),
        ("interval_level", LEVEL),
        ("table", "lines"),
        "scores",
        "refused",
    )

    @property
    def lines(self) -> tuple[ScoreLine, ...]:
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

    @property
    def sentence(self) -> str:
        """The result in words."""
        lines = {x.name: x for x in self.lines}
        ours = lines.get(AVERAGED)
        if ours is None:
            return "no origin of any log could be used by all forecasters; nothing was scored."
        best = min((x for x in lines.values() if x.kind == "rival"), key=lambda x: x.crps, default=None)
        text = f"mean CRPS {ours.crps:.3f} of the curve's standard deviation"
        if best is not None:
            text += f", {self.ratio:.2f} times that of the best rival ({best.name}, {best.crps:.3f})"
        return (
            f"{text}; the {LEVEL:.0%} intervals covered {ours.coverage:.0%} of the rows to come "
            f"({ours.cases} forecast{'s' if ours.cases != 1 else ''})."
        )

    def pit(self, name: str = AVERAGED) -> np.ndarray:
        """Probability integral transforms of all rows that a forecaster predicted."""
        return np.array([v for s in self.scores if s.name == name for v in s.pit])

    def to_frame(self) -> pd.DataFrame:
        """One row a log, origin and forecaster: the fields of `Score`, without the rows' PIT."""
        return frame_of(
            (fields_of(s, "pit") for s in self.scores), ["log", "origin", "name"], Score.__dataclass_fields__
        )


def _line(name: str, kind: str, scores: list[Score]) -> ScoreLine:
    origins = sorted({s.origin for s in scores})
    by_origin = {}
    for o in origins:
        own = [s for s in scores if s.origin == o]
        by_origin[o] = (float(np.mean([s.crps for s in own])), float(np.mean([s.coverage for s in own])))
    weights = np.array([s.weight for s in scores])  # NaN where a regime had too few rows
    return ScoreLine(
        name=name,
        kind=kind,
        crps=float(np.mean([s.crps for s in scores])),
        by_origin=by_origin,
        log_score=float(np.mean([s.log_score for s in scores])),
        coverage=float(np.mean([s.coverage for s in scores])),
        cases=len(scores),
        weight=math.nan if np.isnan(weights).all() else float(np.nan_to_num(weights).mean()),
    )
