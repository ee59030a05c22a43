"""Steps with several records: parts of one step, and the rows of a training that was resumed from before them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_MIN_STEPS = 5
_SHARE = 0.8
_MIN_AGAIN = 2
_MAX_RESUMES = 50
"""A log whose steps go backwards more often is interleaved, not resumed."""


class Parts(NamedTuple):
    """Columns whose parts of a step are averaged.

    Attributes:
        columns: Column → values, each of shape (n,); an average in the first row of its step, NaN in the others.
        averaged: Names of the columns that had parts.
        usual: Usual number of parts; 1 where no column has any.
    """

    columns: dict[str, np.ndarray]
    averaged: tuple[str, ...]
    usual: int


def mean_of_parts(step: np.ndarray, columns: dict[str, np.ndarray]) -> Parts:
    """Averages what is logged several times at nearly every step, as by micro-batches or gradient accumulation.

    A step that has a second record by exception (a restart, a closing row) is left as it is: there the last one counts.

    Args:
        step: Steps in file order, shape (n,), finite.
        columns: Column → values, each of shape (n,).
    """
    if not len(step):
        return Parts(columns, (), 1)
    starts = np.flatnonzero(np.r_[True, np.diff(step) != 0])
    sizes = np.diff(np.r_[starts, len(step)])
    result, averaged, counts = {}, [], [1.0]
    for name, values in columns.items():
        finite = np.isfinite(values)
        count = np.add.reduceat(finite.astype(np.int64), starts)
        logged = count > 0
        if logged.sum() < _MIN_STEPS or np.mean(count[logged] > 1) < _SHARE:
            result[name] = values
            continue
        # About the first value, so that equal parts have exactly their value as the average.
        base = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
        base = np.where(logged, base, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            excess = np.where(finite, values - np.repeat(base, sizes), 0.0)
            mean = base + np.add.reduceat(excess, starts) / np.maximum(count, 1)
        result[name] = np.full(len(step), np.nan)
        result[name][starts] = np.where(logged & np.isfinite(mean), mean, np.nan)
        averaged.append(name)
        counts.append(float(np.median(count[logged])))
    return Parts(result, tuple(averaged), round(max(counts)))


class Abandoned(NamedTuple):
    """Rows of attempts that a training left behind when it was resumed from an earlier step.

    Attributes:
        train: Train rows at steps that the resumed training did not log again, shape (n,).
        evals: Evaluations past the step of the resume, shape (n,).
        resumes: First steps of the trainings that were resumed.
    """

    train: np.ndarray
    evals: np.ndarray
    resumes: tuple[float, ...]


def abandoned(step: np.ndarray, reward: np.ndarray, file: np.ndarray) -> Abandoned:
    """Finds what came, in the file, before a resume and lies beyond its step.

    A resume goes back to steps that have a reward already and logs at least two of them again. One step alone may be
    a late line; rows in any other order are merely unsorted; several files of one run complete each other.

    Args:
        step: Steps in file order, shape (n,), NaN where a row has none.
        reward: Train reward, shape (n,), NaN where a row has none.
        file: Number of the file that a row is from, shape (n,).
    """
    train, evals = np.zeros(len(step), dtype=bool), np.zeros(len(step), dtype=bool)
    resumes = []
    rows = np.flatnonzero(np.isfinite(step) & np.isfinite(reward))
    back = 1 + np.flatnonzero((np.diff(step[rows]) < 0) & (np.diff(file[rows]) == 0))
    if len(back) <= _MAX_RESUMES:
        borders = 1 + np.flatnonzero((np.diff(step[rows]) < 0) | (np.diff(file[rows]) != 0))
        for start in back:
            end = int(np.append(borders[borders > start], len(rows))[0])
            again = np.unique(step[rows[start:end]])
            earlier = (np.arange(len(step)) < rows[start]) & (file == file[rows[start]])
            known = step[rows[:start]][earlier[rows[:start]]]
            if np.isin(again, known).sum() < _MIN_AGAIN:
                continue
            if _says_the_same(step[rows], reward[rows], int(start), end):
                continue  # records of another kind that repeat the reward
            first = step[rows[start]]
            beyond = earlier & (step > first)
            evals |= beyond & (np.arange(len(step)) > rows[0])  # those before any reward are records of their own kind
            train |= beyond & ~np.isin(step, again)
            resumes.append(float(first))
    return Abandoned(train, evals, tuple(resumes))


def _says_the_same(step: np.ndarray, reward: np.ndarray, start: int, end: int) -> bool:
    """Whether the rows of a session only repeat the last rewards logged before at their steps."""
    known = dict(zip(step[:start].tolist(), reward[:start].tolist(), strict=True))
    again = zip(step[start:end].tolist(), reward[start:end].tolist(), strict=True)
    both = np.array([(known[s], r) for s, r in again if s in known]).reshape(-1, 2)
    return np.allclose(both[:, 0], both[:, 1], rtol=1e-6, atol=0.0)
