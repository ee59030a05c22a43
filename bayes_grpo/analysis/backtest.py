"""`backtest`: what the forecast would have said at earlier steps of a log, scored on the rows that came.

At every origin the laws are fitted to the rows before it alone, with priors from these rows alone, and every later
row is predicted. The rivals see the same rows. All steps ahead count alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bayes_grpo.analysis.forecast import MIN_FORECAST_ROWS
from bayes_grpo.analysis.forecast_fits import FORECAST_REGIMES, LawDraws, PriorsFor, Progress, fit_laws
from bayes_grpo.analysis.forecast_paths import allot, law_paths
from bayes_grpo.analysis.forecast_priors import forecast_priors
from bayes_grpo.analysis.reward_range import reward_range
from bayes_grpo.analysis.rivals import RIVALS
from bayes_grpo.analysis.schedule import schedule_of
from bayes_grpo.analysis.scores import covered, crps, log_score, pit
from bayes_grpo.errors import FitError, SettingError
from bayes_grpo.inference.predict import FutureRows, doubled, general
from bayes_grpo.inference.sampler import SamplerSettings
from bayes_grpo.intervals import LEVEL
from bayes_grpo.logs.run import Run, Setting
from bayes_grpo.regimes import rows_of
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.rows import Rows, RowTable
from bayes_grpo.strict_json import json_safe

ORIGINS = (0.3, 0.5, 0.7)
"""Forecast origins as shares of the rows."""
MIN_ROWS = 20
"""Fewer rows leave too little before the first origin and after the last."""
AVERAGED = "forecast"
"""Name of the averaged forecast beside regimes and rivals."""
BACKTEST_SAMPLER = SamplerSettings(chains=4, warmup=200, draws=250, target_accept=0.85)
"""Sampler settings of a backtest: hundreds of fits, of which only predictive draws are used."""
_DRAWS = 1000
_STREAM = 20


@dataclass(frozen=True)
class Score:
    """One forecaster at one origin of one log.

    Attributes:
        log: Name of the run.
        origin: Share of the rows that it saw.
        step: Step of the last row that it saw.
        name: "forecast", a regime or a rival.
        kind: "forecast", "regime" or "rival".
        rows: Rows that were predicted.
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
    weight: float


@dataclass(frozen=True)
class Line:
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
class Backtest:
    """Scores of a backtest.

    Attributes:
        scores: One entry a log, origin and forecaster.
        refused: Logs and origins that could not be used, and why.
    """

    scores: tuple[Score, ...]
    refused: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
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
            f"{text}; the {LEVEL:.0%} intervals held {ours.coverage:.0%} of the rows to come "
            f"({ours.cases} forecast{'s' if ours.cases != 1 else ''})."
        )

    def pit(self, name: str = AVERAGED) -> np.ndarray:
        """Probability integral transforms of all rows that a forecaster predicted."""
        return np.array([v for s in self.scores if s.name == name for v in s.pit])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary; numbers that are not finite become None."""
        lines = [asdict(x) | {"by_origin": {f"{k:g}": list(v) for k, v in x.by_origin.items()}} for x in self.lines]
        return json_safe(
            {
                "sentence": self.sentence,
                "ratio_to_best_rival": self.ratio,
                "interval_level": LEVEL,
                "table": lines,
                "scores": [asdict(s) | {"pit": list(s.pit)} for s in self.scores],
                "refused": list(self.refused),
            }
        )


def _line(name: str, kind: str, scores: list[Score]) -> Line:
    origins = sorted({s.origin for s in scores})
    by_origin = {}
    for o in origins:
        own = [s for s in scores if s.origin == o]
        by_origin[o] = (float(np.mean([s.crps for s in own])), float(np.mean([s.coverage for s in own])))
    weights = np.array([s.weight for s in scores])  # NaN where a law had too few rows
    return Line(
        name=name,
        kind=kind,
        crps=float(np.mean([s.crps for s in scores])),
        by_origin=by_origin,
        log_score=float(np.mean([s.log_score for s in scores])),
        coverage=float(np.mean([s.coverage for s in scores])),
        cases=len(scores),
        weight=math.nan if np.isnan(weights).all() else float(np.nan_to_num(weights).mean()),
    )


def merged(parts: Iterable[Backtest]) -> Backtest:
    """One backtest out of those of several logs."""
    parts = list(parts)
    return Backtest(tuple(s for p in parts for s in p.scores), tuple(r for p in parts for r in p.refused))


def backtest(
    run: Run,
    *,
    origins: Sequence[float] = ORIGINS,
    signal: str = "auto",
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    priors: PriorsFor = forecast_priors,
    rivals: Sequence[str] = tuple(RIVALS),
    seed: int = 0,
    sampler: SamplerSettings | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Scores the forecast of a run at earlier steps against the rows that came.

    Args:
        run: The run.
        origins: Shares of the rows after which it is forecast, in (0, 1).
        signal: "auto", "reward" (train) or "eval" (held-out).
        regimes: Regimes to average over.
        priors: Prior overrides of each law for the rows before an origin.
        rivals: Names in `bayes_grpo.analysis.rivals.RIVALS`.
        seed: Seed.
        sampler: Length and care of the sampling.
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
    tell = progress or (lambda _: None)
    settings = dict(run.settings.items())
    scores: list[Score] = []
    refused: list[str] = []
    for i, origin in enumerate(origins):
        n = round(origin * len(whole.y))

        def stage(phrase: str, origin: float = origin) -> None:
            tell(f"{run.name}, origin {origin:.0%}: {phrase}")

        try:
            past = _past(run, whole, n)
            draws, weights = _predicted(past, whole, n, regimes, priors, settings, seed + 101 * i, sampler, stage)
        except FitError as error:
            refused.append(f"{run.name}, origin {origin:.0%}: {error}")
            continue
        for name in rivals:
            stage(name)
            draws[name] = RIVALS[name](past.step, past.y, whole.step[n:]).draws(_DRAWS)
        rng = np.random.default_rng([seed, i])
        kinds = {AVERAGED: "forecast", **dict.fromkeys(rivals, "rival")}
        for name, d in draws.items():
            score = _score(run.name, origin, past, whole, n, name, kinds.get(name, "regime"), d, rng)
            scores.append(replace(score, weight=weights.get(name, math.nan)))
    return Backtest(tuple(scores), tuple(refused))


def _past(run: Run, whole: RowTable, n: int) -> RowTable:
    """Rows as the log stood at the origin: nothing of them knows what came later."""
    if n < MIN_FORECAST_ROWS - 2:
        raise FitError(f"{n} rows are too few to forecast from; at least {MIN_FORECAST_ROWS - 2} are needed")
    signal = "reward" if whole.signal == "reward" else "eval"
    return rows_of(run.until(float(whole.step[n - 1])), signal)


def _predicted(
    past: RowTable,
    whole: RowTable,
    n: int,
    regimes: Sequence[str | Regime],
    priors: PriorsFor,
    settings: Mapping[str, Setting],
    seed: int,
    sampler: SamplerSettings | None,
    tell: Progress,
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Predictive draws of every row after the origin, by forecaster, and the weights of the regimes."""
    reward = reward_range(past, settings)
    fitted = fit_laws(
        past,
        regimes,
        reward=reward,
        priors=priors,
        seed=seed,
        sampler=sampler or BACKTEST_SAMPLER,
        rows=common_rows(past),
        strict=False,
        progress=tell,
    )
    ahead = schedule_of(past, settings)
    step = whole.step[n:]
    before = np.concatenate([past.step[-1:], step[:-1]])
    future = FutureRows(step, whole.window[n:], ahead.mean(step, step - before), whole.weight[n:])

    def rows(law: LawDraws, count: int, offset: int) -> np.ndarray:
        return law_paths(law, past, future, count, seed + offset, reward)[2]

    draws = {name: rows(law, _DRAWS, 31 * i) for i, (name, law) in enumerate(fitted.laws.items())}
    for name in (x if isinstance(x, str) else x.name for x in regimes):
        if name not in draws and "flat" in draws:
            draws[name] = draws["flat"]  # too few rows for this law: without a trend is what remains of it
    rng = np.random.default_rng([seed, _STREAM])
    counts = allot(_DRAWS, fitted.weights)
    averaged = [draws[name][rng.choice(_DRAWS, count, replace=False)] for name, count in counts.items()]
    return {AVERAGED: np.concatenate(averaged), **draws}, fitted.weights


def common_rows(table: RowTable) -> Rows:
    """The rows in one of few shapes, so that a backtest of many logs compiles few programs."""
    rows = table.padded(doubled(len(table.y)))
    simple = all(x is None or np.ndim(x) == 0 for x in (rows.window, rows.gap, rows.rate, rows.weight))
    if simple:
        return rows._replace(start_speed=np.zeros(()) if rows.start_speed is None else rows.start_speed)
    return general(rows)


def _score(
    log: str,
    origin: float,
    past: RowTable,
    whole: RowTable,
    n: int,
    name: str,
    kind: str,
    draws: np.ndarray,
    rng: np.random.Generator,
) -> Score:
    y, scale = whole.y[n:], whole.scale
    return Score(
        log=log,
        origin=origin,
        step=float(past.step[-1]),
        name=name,
        kind=kind,
        rows=len(y),
        crps=float(np.mean(crps(draws, y))) / scale,
        log_score=float(np.mean(log_score(draws, y))) + math.log(scale),
        coverage=float(np.mean(covered(draws, y))),
        pit=tuple(float(v) for v in pit(draws, y, rng)),
        weight=math.nan,
    )
