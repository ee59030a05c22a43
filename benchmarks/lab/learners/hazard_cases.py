"""Origins of many logs: which events could meet them, which did, and what the rows before showed of it.

`hazard` learns rates of events from them, and asks whether they should depend on signs.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo.backtesting import MIN_BACKTEST_ROWS, ORIGINS
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.forecasting.events import COLLAPSE, LEAST_ROWS, NOISE_OF_MEANS, SIGN, OriginState, origin_state
from bayes_grpo.forecasting.inputs import MIN_FORECAST_ROWS
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import RewardRange, reward_range
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from benchmarks.lab.learners.lab_logs import lab_logs

MOST_ROWS = 15.0
"""Forecasts of a repository count as this many at most: five logs at three origins."""
_LABORATORY = "laboratory"

HAZARD_SIGNS = (
    "rows",
    "level",
    "late_fall",
    "noise_change",
    "entropy_change",
    "gradient_peak",
    "kl",
    "refresh_interval",
    "zero_spread",
)


_END_PART = 10
"""The end is the mean of the last tenth of all rows: rows that came are fewer and rougher than a trend."""


def event_after(origin: OriginState, came: np.ndarray) -> tuple[str, float]:
    """The event that a log met after an origin, and its size; "" and NaN without one.

    Args:
        origin: Where it stood there.
        came: Rewards of the rows after it, shape (h,).
    """
    rows = min(len(came), max(LEAST_ROWS, (origin.rows + len(came)) // _END_PART))
    change = float(came[-rows:].mean()) - origin.now
    error = NOISE_OF_MEANS * origin.noise * np.sqrt(1.0 / origin.last + 1.0 / rows)
    for name, span in origin.spans.items():
        size = SIGN[name] * change
        if size >= span.least and (name != COLLAPSE or size >= error):
            return name, (size - span.least) / (span.most - span.least)
    return "", np.nan


def signs_of(table: Series, reward: RewardRange, run: Run) -> dict[str, float]:
    """What rows before an origin show of events to come, by the names of `HAZARD_SIGNS`; NaN where it is not logged.

    Args:
        table: Rows so far.
        reward: Where the reward can lie.
        run: The log so far, for its signals.

    Returns:
        Log of rows over 50; the level as a share of the range; fall from the fifth before to the last fifth over a
        row's noise (signed log); log of the noise of the later half over that of the earlier; change of the policy's
        entropy from the first to the last fifth in e-folds; log of the largest gradient norm over the median; log of
        the KL divergence at the end; log of the refresh interval; share of groups without spread at the end.
    """
    y, n = table.y, len(table.y)
    k = max(3, n // 5)
    difference = np.abs(np.diff(y))
    noise = float(np.std(np.diff(y))) / np.sqrt(2.0) + 1e-12
    fall, now = (y[-2 * k : -k].mean() - y[-k:].mean()) / noise, float(y[-k:].mean())
    early, late = (float(np.sqrt(np.mean(x**2))) + 1e-3 * noise for x in np.array_split(difference, 2))
    span = reward.high - reward.low
    found = {
        "rows": np.log(n / 50.0),
        "level": (now - reward.low) / span if np.isfinite(span) else np.nan,
        "late_fall": np.sign(fall) * np.log1p(abs(fall)),
        "noise_change": np.log(late / early),
    }
    return {name: float(found.get(name, np.nan)) for name in HAZARD_SIGNS} | _of_signals(run)


def _of_signals(run: Run) -> dict[str, float]:
    """The signs that other signals than the reward give."""

    def of(name: str) -> np.ndarray:
        values = run.signals.get(name, np.empty(0))
        return values[np.isfinite(values)]

    def ends(values: np.ndarray) -> tuple[float, float]:
        if not len(values):
            return np.nan, np.nan
        k = min(len(values), max(3, len(values) // 5))
        return float(values[:k].mean()), float(values[-k:].mean())

    def log(value: float) -> float:
        return float(np.log(value)) if value > 0.0 and np.isfinite(value) else np.nan

    start, end = ends(of("entropy"))
    gradient = of("grad_norm")
    refresh = run.settings.refresh_interval.value
    return {
        "entropy_change": log(end) - log(start),
        "gradient_peak": log(gradient.max()) - log(float(np.median(gradient))) if len(gradient) else np.nan,
        "kl": log(max(ends(of("kl"))[1], 1e-6)) if len(of("kl")) else np.nan,
        "refresh_interval": log(float(refresh)) if refresh else np.nan,
        "zero_spread": ends(of("frac_reward_zero_std"))[1],
    }


class Case(NamedTuple):
    """An origin of a log, and what came.

    Attributes:
        repo: Repository; `_LABORATORY` for laboratory runs.
        log: Name of the run.
        origin: Share of the rows that was seen.
        ahead: Rows to come over rows seen.
        signs: `signs_of`.
        possible: Events that could meet it.
        event: The one that did, or "".
        size: Its size.
    """

    repo: str
    log: str
    origin: float
    ahead: float
    signs: dict[str, float]
    possible: tuple[str, ...]
    event: str
    size: float


def hazard_cases_of(repo: str, log: str, run: Run) -> list[Case]:
    """Cases of one log; none where it is too short or has no usable reward."""
    try:
        whole = rows_of(run)
    except BayesGrpoError:
        return []
    out = []
    for origin in ORIGINS:
        n = round(origin * len(whole.y))
        if len(whole.y) < MIN_BACKTEST_ROWS or n < MIN_FORECAST_ROWS - 2:
            continue
        until = run.until(float(whole.step[n - 1]))
        try:
            past = rows_of(until, "reward" if whole.signal == "reward" else "eval")
        except BayesGrpoError:
            continue  # a reward that has not moved yet
        reward = reward_range(past.y, dict(run.settings.items()))
        state = origin_state(past.y, reward)
        event, size = event_after(state, whole.y[n:])
        signs = signs_of(past, reward, until)
        ahead = float(np.count_nonzero(whole.rate[n:] > 0.0)) / n
        out.append(Case(repo, log, origin, ahead, signs, tuple(state.spans), event, size))
    return out


def events_counted(cases: Sequence[Case]) -> np.ndarray:
    """What each case counts: repositories of many forecasts no more than `MOST_ROWS`, shape (cases,)."""
    count = Counter(c.repo for c in cases)
    return np.array([min(1.0, MOST_ROWS / count[c.repo]) for c in cases])


def public_cases(folders: Sequence[Path]) -> tuple[list[Case], dict[str, tuple[str, Path]]]:
    """Cases of public logs, and log → its repository and file."""
    cases, files = [], {}
    for folder in folders:
        with (folder / "index.csv").open(encoding="utf-8") as file:
            repos = {row["run_id"]: row["repo"] for row in csv.DictReader(file)}
        for path in sorted((folder / "csv").glob("*.csv")):
            found = hazard_cases_of(repos.get(path.stem, path.stem), path.stem, read_log(path))
            cases += found
            if found:
                files[path.stem] = (repos.get(path.stem, path.stem), path)
    return cases, files


def lab_cases(folders: Sequence[Path]) -> list[Case]:
    """Cases of laboratory runs; an event at or after the truth's onset or without one, as any log shows it."""
    return [c for x in lab_logs(folders) for c in hazard_cases_of(_LABORATORY, x.name, x.run)]
