"""Rows that nobody has logged yet: their steps, windows and learning rates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.rows.schedule import RemainingRate
from bayes_grpo.rows.table import RowTable


class FutureRows(NamedTuple):
    """Rows that nobody has logged yet.

    Attributes:
        step: Steps at which they end, shape (h,), increasing, the first not before the last logged row.
        window: Steps averaged into each, shape (h,); 0 = instantaneous.
        rate: Learning rate over the reference one, shape (h,).
        weight: Completions of each row over the typical number, shape (h,).
    """

    step: np.ndarray
    window: np.ndarray
    rate: np.ndarray
    weight: np.ndarray


class RowsAhead(NamedTuple):
    """What a forecast is asked for.

    Attributes:
        step: Steps of the forecast, shape (h,), the last one the horizon.
        beyond: Steps after the horizon at which the trend is followed on, shape (k,).
        logged: Rows that the log would show until the horizon; ``step`` has no more of them than `_GRID`.
        future: Rows of both, after an instantaneous one at the log's end (the reward now), shape (1 + h + k,) each.
    """

    step: np.ndarray
    beyond: np.ndarray
    logged: int
    future: FutureRows


def extended(table: RowTable, future: FutureRows) -> RowTable:
    """The rows followed by future ones without a value."""
    noise = table.noise
    return replace(
        table,
        step=np.concatenate([table.step, future.step]),
        y=np.concatenate([table.y, np.full(len(future.step), np.nan)]),
        window=np.concatenate([table.window, future.window]),
        rate=np.concatenate([table.rate, future.rate]),
        weight=np.concatenate([table.weight, future.weight]),
        noise=None if noise is None else np.concatenate([noise, np.full(len(future.step), noise[-1])]),
    )


_GRID = 96
"""Future rows of a forecast at most."""


_BEYOND = 30
"""Steps after the horizon at which the trend is followed on, to find when a share of the gain is reached."""


_FAR = 20.0
"""How far it is followed, in lengths of log and horizon together."""


def rows_until(table: RowTable, until: float) -> int:
    """Rows that the log would show from its last one until a later step; at least 1."""
    return max(1, round((until - float(table.step[-1])) / float(np.median(np.diff(table.step)))))


def future_steps(table: RowTable, until: float) -> np.ndarray:
    """Steps of the forecast: as the log's rows are spaced, or further apart so that there are `_GRID` at most.

    Raises:
        SettingError: The horizon is not after the last row.
    """
    now = float(table.step[-1])
    if not (math.isfinite(until) and until > now):
        raise SettingError(
            f"until: expected a step after the last logged one ({now:g}), found {until:g}; the horizon lies in the past"
        )
    count = min(_GRID, rows_until(table, until))
    step = now + (until - now) * np.arange(1, count + 1) / count
    if np.all(table.step == np.round(table.step)) and until == round(until):
        step = np.unique(np.round(step))  # whole steps stay whole
        step = step[step > now]
    return step


def beyond_steps(table: RowTable, until: float) -> np.ndarray:
    """Steps after the horizon at which the trend is followed on, further and further apart."""
    span = until - table.start
    step = until + span * np.geomspace(0.05, _FAR, _BEYOND)
    return np.unique(np.round(step)) if until == round(until) and span > 2 * _BEYOND else step


def future_rows(table: RowTable, step: np.ndarray, ahead: RemainingRate) -> FutureRows:
    """Future rows as the log would show them, after an instantaneous one at its end (the reward now)."""
    now = float(table.step[-1])
    before = np.concatenate([[now], step[:-1]])
    window = np.minimum(float(np.median(table.window)), step - before)
    return FutureRows(
        step=np.concatenate([[now], step]),
        window=np.concatenate([[0.0], window]),
        rate=np.concatenate([[ahead.rate_now], ahead.mean(step, step - before)]),
        weight=np.ones(1 + len(step)),
    )


def rows_ahead(table: RowTable, until: float, ahead: RemainingRate) -> RowsAhead:
    """The rows of a forecast.

    Args:
        table: Rows that were logged.
        until: Horizon, a step after the last row.
        ahead: Learning rate from now on.

    Raises:
        SettingError: The horizon is not after the last row.
    """
    step, beyond = future_steps(table, until), beyond_steps(table, until)
    future = future_rows(table, np.concatenate([step, beyond]), ahead)
    return RowsAhead(step, beyond, rows_until(table, until), future)
