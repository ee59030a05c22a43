"""Rows on their way into a compiled program: the one policy of lengths and columns.

A program is compiled for the shapes of its arguments. One log gets the smallest shapes (`padded`), many logs get few
shapes (`shared`); nothing else pads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from bayes_grpo.logs.reading import RunLike
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import FutureGrid
from bayes_grpo.rows.series import Series


class Rows(NamedTuple):
    """Rows on their way into the compiled sampler, padded to a bucket length T.

    A field that is the same for every row is a scalar, and None where it plays no part: both make the compiled program
    shorter.

    Attributes:
        y: Logged rewards, shape (T,), NaN where missing or padded.
        window: Steps averaged into a row; None for instantaneous values.
        gap: Steps between the end of the row before and the start of the row's window; None without gaps.
        rate: Learning rate of the row over the reference learning rate; None where constant.
        weight: Measurement variance of the typical row over that of the row; None where all rows weigh the same.
        start_speed: Prior sd of the latent reward's initial velocity, reward/step; None where the log starts
            with the run, from rest.
        length: Steps from the start of the first row to the end of the last, a scalar, as are all that follow.
        spacing: Mean steps from row to row.
        start: Step at which the first row's window starts.
        momentum: Momentum μ or Adam's β₁.
        refresh: Optimizer steps between refreshes of the sampling policy.
    """

    y: Array | np.ndarray
    window: Array | np.ndarray | None
    gap: Array | np.ndarray | None
    rate: Array | np.ndarray | None
    weight: Array | np.ndarray | None
    start_speed: Array | np.ndarray | None
    length: Array | np.ndarray
    spacing: Array | np.ndarray
    start: Array | np.ndarray
    momentum: Array | np.ndarray
    refresh: Array | np.ndarray


def padded(table: Series, length: int | None = None) -> Rows:
    """Rows for the programs of one log: padded to a bucket length, columns no longer than they have to be.

    Args:
        table: The rows.
        length: Length to pad to; a bucket length if None.

    Returns:
        The rows. Missing values stand for the padding.
    """
    n = len(table.y)
    size = bucket(n) if length is None else length

    def column(values: np.ndarray, fill: float, neutral: float) -> np.ndarray | None:
        if np.all(values == neutral):
            return None
        if np.all(values == values[0]):
            return np.asarray(values[0])
        return np.concatenate([values, np.full(size - n, fill)])

    return Rows(
        y=np.concatenate([table.y, np.full(size - n, np.nan)]),
        window=column(table.window, 1.0, 0.0),
        gap=column(table.gap(), 0.0, 0.0),
        rate=column(table.rate, 1.0, 1.0),
        weight=column(table.precision, 1.0, 1.0),
        start_speed=None if table.from_rest else np.asarray(5.0 * table.scale / table.length),
        length=np.asarray(table.length),
        spacing=np.asarray(table.length / n),
        start=np.asarray(table.start),
        momentum=np.asarray(table.optimizer.momentum),
        refresh=np.asarray(table.optimizer.refresh),
    )


def shared(table: Series) -> Rows:
    """Rows for programs that many logs share: one of few lengths, and columns of one of three kinds.

    Rows of one window that follow on each other keep it as a scalar, with a constant learning rate or with one that
    varies; all else has every column as an array. How precise a row is may differ in all three. So a folder of logs
    compiles at most three programs a length and regime.
    """
    rows = padded(table, bucket(len(table.y), 1))
    if rows.gap is not None or np.ndim(0.0 if rows.window is None else rows.window):
        return _filled(rows, *_ABSENT)
    rows = rows._replace(window=np.zeros(()) if rows.window is None else rows.window)
    return _filled(rows, "weight") if rows.rate is None else _filled(rows, "rate", "weight")


def stacked(logs: Sequence[Series | RunLike]) -> Rows:
    """Rows of several logs in one, for a model of all of them: a leading axis of logs on every field.

    Args:
        logs: The rows of each of n logs, or the runs, of which the train reward is taken.

    Returns:
        The rows, padded to the longest: ``y`` has the shape (n, T).
    """
    tables = [x if isinstance(x, Series) else rows_of(x) for x in logs]
    length = max(len(t.y) for t in tables)
    return jax.tree.map(lambda *x: np.stack(x), *(_filled(padded(t, length), *_ABSENT) for t in tables))


_ABSENT = {"window": 0.0, "gap": 0.0, "rate": 1.0, "weight": 1.0}
"""Meaning of a column that is None."""


def _filled(rows: Rows, *columns: str) -> Rows:
    """The same rows with these columns as arrays, and an initial velocity of 0 where there is none."""
    speed = np.zeros(()) if rows.start_speed is None else rows.start_speed
    found = {k: _ABSENT[k] if getattr(rows, k) is None else getattr(rows, k) for k in columns}
    arrays = {k: np.array(np.broadcast_to(v, rows.y.shape), float) for k, v in found.items()}
    return rows._replace(start_speed=speed, **arrays)


def bucket(n: int, parts: int = 4) -> int:
    """Smallest bucket length that holds ``n`` rows: 32, 40, 48, 56, 64, 80 and so on, four to a doubling.

    With one part these are 32, 64, 128 and so on: few lengths, few programs to compile.
    """
    top = 32
    while top < n:
        top *= 2
    step = top // (2 * parts)
    return max(32, -(-n // step) * step)


def first_rows(whole: Rows, first: Series) -> Rows:
    """Arrays of the first rows of a log in the shapes of the whole log, so that nothing is compiled again."""
    own = _filled(padded(first))
    return whole._replace(
        y=first_values(whole.y, len(first.y)),
        length=own.length,
        spacing=own.spacing,
        start_speed=None if whole.start_speed is None else own.start_speed,
    )


def first_values(y: Array | np.ndarray, count: int) -> np.ndarray:
    """The first ``count`` values, all others missing, shape (T,)."""
    return np.where(np.arange(len(y)) < count, y, np.nan)


def followed_by(past: Rows, rows: Series, grid: FutureGrid) -> Rows:
    """Arrays of a log's rows with future ones after them, which have no values.

    Some coordinates refer to the log's length: they keep the meaning that they had when the regime was fitted on
    ``past``.
    """
    longer = shared(rows.extended(grid.step, grid.window, grid.rate, grid.weight))
    speed = longer.start_speed if past.start_speed is None else past.start_speed
    return longer._replace(length=past.length, spacing=past.spacing, start_speed=speed)
