"""Origins of many logs: which events could meet them, and which did; `hazard` learns rates of events from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo.backtesting import MIN_BACKTEST_ROWS, ORIGINS
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.forecasting.events import COLLAPSE, LEAST_ROWS, NOISE_OF_MEANS, SIGN, OriginState, origin_state
from bayes_grpo.forecasting.inputs import MIN_FORECAST_ROWS
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.index import logs_in
from benchmarks.lab.learners.lab_logs import lab_logs

MOST_ROWS = 15.0
"""Forecasts of a repository count as this many at most: five logs at three origins."""
_LABORATORY = "laboratory"

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


class Case(NamedTuple):
    """An origin of a log, and what came.

    Attributes:
        repo: Repository; `_LABORATORY` for laboratory runs.
        log: Name of the run.
        origin: Share of the rows that was seen.
        ahead: Rows to come over rows seen.
        possible: Events that could meet it.
        event: The one that did, or "".
        size: Its size.
    """

    repo: str
    log: str
    origin: float
    ahead: float
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
        state = origin_state(past.y, reward_range(past.y, dict(run.settings.items())))
        event, size = event_after(state, whole.y[n:])
        ahead = float(np.count_nonzero(whole.rate[n:] > 0.0)) / n
        out.append(Case(repo, log, origin, ahead, tuple(state.spans), event, size))
    return out


def events_counted(cases: Sequence[Case]) -> np.ndarray:
    """What each case counts: repositories of many forecasts no more than `MOST_ROWS`, shape (cases,)."""
    count = Counter(c.repo for c in cases)
    return np.array([min(1.0, MOST_ROWS / count[c.repo]) for c in cases])


def public_cases(folders: Sequence[Path]) -> list[Case]:
    """Cases of public logs."""
    return [case for run, row in logs_in(folders) for case in hazard_cases_of(row["repo"], row["run_id"], run)]


def lab_cases(folders: Sequence[Path]) -> list[Case]:
    """Cases of laboratory runs; an event at or after the truth's onset or without one, as any log shows it."""
    return [c for x in lab_logs(folders) for c in hazard_cases_of(_LABORATORY, x.name, x.run)]
