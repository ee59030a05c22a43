"""From rows in file order to one row a step: sorting, resumes, duplicates, parts of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.columns import COMPONENT, ENVIRONMENT, MOVING, Columns
from bayes_grpo.logs.run import Caution, Run
from bayes_grpo.logs.settings import Settings

_MIN_STEPS = 5
_MIN_PARTS = 3
"""Steps from which on several records of each are its parts."""
_MIN_AGAIN = 2
_SHARE = 0.8
_EXPLODED, _LEAST_KL = 100, 1.0
"""Times its median from which on a KL is noted, and the nats a token below which it is not."""
MAX_RESUMES = 50
"""A log whose steps go backwards more often is interleaved, neither resumed nor several trainings."""


def mean_of_parts(
    step: np.ndarray, columns: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], tuple[str, ...], int]:
    """Averages what is logged several times at nearly every step, as by micro-batches or gradient accumulation.

    A step that has a second record by exception (a restart, a closing row) is left as it is: there the last one counts.
    ``step`` is in file order and finite, shape (n,); the columns are in the same order, NaN where a row has no value.
    Returned are the columns, an average in the first row of its step, which were averaged, and their usual parts.
    """
    if not len(step):
        return columns, (), 1
    starts = np.flatnonzero(np.r_[True, np.diff(step) != 0])
    sizes = np.diff(np.r_[starts, len(step)])
    result = dict(columns)
    averaged = []
    counts = [1.0]
    for name, values in columns.items():
        finite = np.isfinite(values)
        count = np.add.reduceat(finite.astype(np.int64), starts)
        logged = count > 0
        if logged.sum() < _MIN_PARTS or np.mean(count[logged] > 1) < _SHARE:
            continue
        # About the first value, so that equal parts have exactly their value as the average.
        base = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
        base = np.where(logged, base, 0.0)
        excess = np.where(finite, values - np.repeat(base, sizes), 0.0)
        mean = base + np.add.reduceat(excess, starts) / np.maximum(count, 1)
        result[name] = np.full(len(step), np.nan)
        result[name][starts] = np.where(logged & np.isfinite(mean), mean, np.nan)
        averaged.append(name)
        counts.append(float(np.median(count[logged])))
    return result, tuple(averaged), round(max(counts))


def abandoned(
    step: np.ndarray, reward: np.ndarray, file: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[float, ...]]:
    """Train rows and evaluations, shape (n,) each, of attempts that a resume left behind; steps of the resumes.

    Of train rows these are those at steps that the resumed training did not log again, of evaluations all past its
    first step.

    A resume goes back to steps that have a reward already and logs at least two of them again. One step alone may be
    a late line; rows in any other order are merely unsorted; several files of one run complete each other. All arrays
    are in file order, shape (n,): step and reward are NaN where a row has none, ``file`` numbers the files.
    """
    train, evals = np.zeros(len(step), dtype=bool), np.zeros(len(step), dtype=bool)
    resumes = []
    rows = np.flatnonzero(np.isfinite(step) & np.isfinite(reward))
    back = 1 + np.flatnonzero((np.diff(step[rows]) < 0) & (np.diff(file[rows]) == 0))
    if len(back) <= MAX_RESUMES:
        borders = 1 + np.flatnonzero((np.diff(step[rows]) < 0) | (np.diff(file[rows]) != 0))
        for start in back:
            end = int(np.append(borders[borders > start], len(rows))[0])
            again = np.unique(step[rows[start:end]])
            earlier = (np.arange(len(step)) < rows[start]) & (file == file[rows[start]])
            known = step[rows[:start]][earlier[rows[:start]]]
            if np.isin(again, known).sum() < _MIN_AGAIN:
                continue
            before = rows[:start]
            after = rows[start:end]
            if repeats(step[before], reward[before], step[after], reward[after]):
                continue  # records of another kind that repeat the reward
            first = step[rows[start]]
            beyond = earlier & (step > first)
            evals |= beyond & (np.arange(len(step)) > rows[0])  # those before any reward are records of their own kind
            train |= beyond & ~np.isin(step, again)
            resumes.append(float(first))
    return train, evals, tuple(resumes)


@np.errstate(over="ignore")
def repeats(old: np.ndarray, was: np.ndarray, new: np.ndarray, now: np.ndarray) -> bool:
    """True if later values ``now`` at steps ``new`` are those at the steps that they share with earlier rows."""
    known = {s: v for s, v in zip(old.tolist(), was.tolist(), strict=True) if v == v}
    pairs = [(known[s], v) for s, v in zip(new.tolist(), now.tolist(), strict=True) if v == v and s in known]
    return bool(pairs) and np.allclose(*np.transpose(pairs), rtol=1e-6, atol=0.0)


LARGEST_STEP = 2.0**53
"""Beyond it two steps may be one float."""


class _Rows(NamedTuple):
    """Rows of a log in file order, shape (n,) each.

    Attributes:
        step: Their steps, NaN where a row has none.
        train: Whether a row is one of training and has a place.
        evals: Whether it is one of an evaluation and has a place.
    """

    step: np.ndarray
    train: np.ndarray
    evals: np.ndarray


def tidy(mapped: Columns, summary: np.ndarray, row_steps: float, file: np.ndarray) -> Run:
    """Sorts, merges and thins rows: a run with all that they hold, and no name, origin and settings yet.

    Parts of one step are averaged where every step has them. Beyond the step of a resume nothing of the attempt before
    it stays. A step that was logged twice by exception keeps its last record; lines of one step that complete each
    other are merged. ``summary`` marks rows that close a training, ``file`` numbers the files, shape (n,) each;
    ``row_steps`` are the optimizer steps that one row stands for where rows are counted.
    """
    notes: list[str] = []
    columns = mapped.train | mapped.parts
    rows = _rows_with_a_place(mapped, columns, summary, row_steps, notes)
    _note_order(rows.step[rows.train], {k: v[rows.train] for k, v in columns.items()}, notes)
    rest, resumes = _without_abandoned(rows, columns["reward"], file, notes)
    step, columns, times = _one_row_a_step(rest, columns, notes)
    eval_step, evals, repeated = merge_steps(rows.step[rest.evals], {"reward": mapped.evals[rest.evals]})
    if mapped.step is None and times > 1:  # counted, each as often as it was printed
        step, eval_step = step[0] + (step - step[0]) / times, eval_step / times
    if repeated and not resumes:
        notes.append(f"{counted(repeated, 'evaluation')} logged more than once; the last record of each is kept")
    columns = _without_uncomputed(columns, mapped.broken, notes)
    _note_exploded(step, columns.get("kl", np.empty(0)), notes)
    parts = {k: columns[k] for k in sorted(columns) if k in mapped.parts}
    return Run(
        **dict.fromkeys(("name", "source", "format", "log_hash"), ""),
        step=step,
        reward=columns["reward"],
        window=np.ones(len(step)),
        signals={k: v for k, v in columns.items() if k != "reward" and k not in parts},
        eval_step=eval_step,
        eval_reward=evals["reward"],
        settings=Settings(),
        notes=tuple(notes),
        components={k.removeprefix(COMPONENT): v for k, v in parts.items() if k.startswith(COMPONENT)},
        logged=_where_logged(step, columns, mapped.broken, rows),
        environments={k.removeprefix(ENVIRONMENT): v for k, v in parts.items() if k.startswith(ENVIRONMENT)},
        second_counter=_second_counter(mapped, step),
        resumes=resumes,
    )


def _rows_with_a_place(
    mapped: Columns, columns: Mapping[str, np.ndarray], summary: np.ndarray, row_steps: float, notes: list[str]
) -> _Rows:
    """Rows of which something is used, at their steps; without a step they are counted.

    Of closing lines, which are no rows, one is kept that has the only reward of a step of its own.
    """
    used = np.logical_or.reduce([*(np.isfinite(v) for v in columns.values()), *mapped.broken.values()])
    rewarded = np.isfinite(columns["reward"])
    step = mapped.step
    if step is None:
        used = used & ~summary if np.any(rewarded & ~summary) else used
        step = np.cumsum(used) * float(row_steps)
        notes.append("no step column; rows are counted from 1" + ("" if row_steps == 1 else f" by {row_steps:g}"))
    step = np.where(np.abs(step) <= LARGEST_STEP, step, np.nan)
    own = step[~summary & rewarded]
    used = used & ~(summary & (~rewarded | np.isnan(step) | np.isin(step, own)))
    placed = np.isfinite(step)
    evals = np.isfinite(mapped.evals)
    if lost := int(np.sum((used | evals) & ~placed)):
        notes.append(Caution(f"{counted(lost, 'row')} without a step left out"))
    return _Rows(step, placed & used, placed & evals)


def _note_order(step: np.ndarray, columns: Mapping[str, np.ndarray], notes: list[str]) -> None:
    """Notes that steps are not in order, and whether those of each kind are; all shapes (rows,)."""
    back = int(np.sum(np.diff(step) < 0))
    if not back:
        return
    if all(np.all(np.diff(step[np.isfinite(values)]) >= 0) for values in columns.values()):
        notes.append(f"records of {back + 1} kinds alternate; joined by step")
    else:
        times = counted(back, "time")
        notes.append(Caution(f"steps go backwards {times} (a resumed or interleaved log); rows are sorted"))


def _without_abandoned(
    rows: _Rows, reward: np.ndarray, file: np.ndarray, notes: list[str]
) -> tuple[_Rows, tuple[float, ...]]:
    """The rows without those of attempts that a resume left behind, and the steps of the resumes."""
    left, left_evals, resumes = abandoned(rows.step, np.where(rows.train, reward, np.nan), file)
    if resumes:
        gone = int(np.sum((rows.train & left) | (rows.evals & left_evals)))
        where = ", ".join(f"{s:g}" for s in resumes)
        left_out = f"{counted(gone, 'row')} of the abandoned attempt beyond it left out"
        notes.append(Caution(f"resumed at step {where}: {left_out}"))
    return _Rows(rows.step, rows.train & ~left, rows.evals & ~left_evals), resumes


def _one_row_a_step(
    rows: _Rows, columns: Mapping[str, np.ndarray], notes: list[str]
) -> tuple[np.ndarray, dict[str, np.ndarray], int]:
    """Steps in order and columns with a row for each, and how often each is there.

    Parts are averaged, records merged, repeated ones left out.
    """
    step = rows.step[rows.train]
    found, averaged, usual = mean_of_parts(step, {k: v[rows.train] for k, v in columns.items()})
    if usual > 1:
        parts = f"steps have {usual} records each of {listed(averaged, 4)} (parts of one step)"
        notes.append(Caution(f"{parts}; they are averaged"))
    step, found, repeated = merge_steps(step, found)
    if repeated:
        notes.append(f"{counted(repeated, 'step')} logged more than once; the last record of each is kept")
    kept, block = first_of_blocks(found)
    if block == 1:
        return step, found, 1
    notes.append(f"each record is repeated {block} times under new steps (forward-filled); the first is kept")
    return step[kept], {k: v[kept] for k, v in found.items()}, block


def _without_uncomputed(
    columns: dict[str, np.ndarray], broken: Mapping[str, np.ndarray], notes: list[str]
) -> dict[str, np.ndarray]:
    """The columns that hold a number: a policy that moves has neither entropy nor KL at exactly 0 in every row."""
    columns = {k: v for k, v in columns.items() if k == "reward" or np.isfinite(v).any()}
    for name in MOVING:
        if name in columns and not np.nan_to_num(columns[name]).any():
            del columns[name]
            notes.append(f"{name} is 0 in every row, so it was not computed; ignored")
    rate = columns.get("learning_rate", np.empty(0))
    if len(rate) >= _MIN_STEPS and not np.nan_to_num(rate).any():
        notes.append(Caution("the learning rate is 0 in every row: rounded by the log, or nothing is trained"))
    if lost := [name for name in broken if name not in columns and "/" not in name]:
        notes.append(f"{listed(lost)} {'is' if len(lost) == 1 else 'are'} logged, and no number in any row")
    return columns


def _note_exploded(step: np.ndarray, kl: np.ndarray, notes: list[str]) -> None:
    """Notes rows whose KL is a hundred times the usual, as an estimate from one improbable token is; shapes (n,)."""
    known = np.isfinite(kl)
    if known.sum() < 2 * _MIN_STEPS:
        return
    far = np.flatnonzero(known & (np.abs(kl) > _EXPLODED * np.median(np.abs(kl[known]))) & (np.abs(kl) > _LEAST_KL))
    if len(far) and np.median(np.abs(kl[known])) > 0.0 and len(far) <= (1.0 - _SHARE) * known.sum():
        most = far[np.argmax(np.abs(kl[far]))]
        rows = counted(len(far), "row")
        notes.append(f"kl is above {_EXPLODED} times its median in {rows}, up to {kl[most]:.4g} at step {step[most]:g}")


def _where_logged(
    step: np.ndarray, columns: Mapping[str, np.ndarray], broken: Mapping[str, np.ndarray], rows: _Rows
) -> dict[str, np.ndarray]:
    """Column → steps at which a value was logged, shape (n,), for those that were also logged as no number."""
    found = {}
    for name, where in broken.items():
        value = columns.get(name, np.full(len(step), np.nan))
        logged = np.isfinite(value) | np.isin(step, rows.step[where & rows.train])
        if np.any(logged & np.isnan(value)):
            found[name] = logged
    return found


def _second_counter(mapped: Columns, step: np.ndarray) -> tuple[str, np.ndarray] | None:
    """Key and values, shape (n,), of the log's second counter at the steps; None without one."""
    if mapped.counter is None or mapped.step is None or not len(step):
        return None
    count = mapped.index.table.column(mapped.counter)
    known = np.isfinite(count) & np.isin(mapped.step, step)
    values = np.full(len(step), np.nan)
    values[np.searchsorted(step, mapped.step[known])] = count[known]
    return mapped.counter, values


def merge_steps(step: np.ndarray, columns: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray], int]:
    """One row a step in their order, the last finite value of each column; and how many steps had several main values.

    Where a resumed run (the step goes backwards) logs a step again, nothing of the earlier record stays. Records of
    other kinds, which come before or after those with the reward or repeat it, complete them.
    """
    n = len(step)
    if n == 0 or np.all(np.diff(step) > 0):
        return step, columns, 0
    session = np.cumsum(np.r_[0, np.diff(step) < 0])
    order = np.argsort(step, kind="stable")
    step, session = step[order], session[order]
    columns = {k: v[order] for k, v in columns.items()}
    starts = np.flatnonzero(np.r_[True, np.diff(step) > 0])
    sizes = np.diff(np.r_[starts, n])

    value = columns["reward"]
    if not np.isfinite(value).any():
        value = max(columns.values(), key=lambda v: np.isfinite(v).sum())
    main = np.isfinite(value)
    # No row stays that a later session replaces: one with another main value at the same step.
    place = np.repeat(np.arange(len(starts)), sizes)
    groups = np.flatnonzero(np.r_[True, (np.diff(place) != 0) | (np.diff(session) != 0)])
    newest = np.maximum.reduceat(np.where(main, np.arange(n), -1), groups)
    own = np.where(newest >= 0, value[newest], np.nan)
    newest_of_step = np.full(len(starts), -1)
    np.maximum.at(newest_of_step, place[groups], newest)
    replaced = np.isfinite(own) & ~np.isclose(own, value[newest_of_step[place[groups]]], rtol=1e-6, atol=0.0)
    valid = np.repeat(~replaced, np.diff(np.r_[groups, n]))
    merged = {}
    for name, values in columns.items():
        last = np.maximum.reduceat(np.where(valid & np.isfinite(values), np.arange(n), -1), starts)
        merged[name] = np.where(last >= 0, values[last], np.nan)
    repeated = int(np.sum(np.add.reduceat(main.astype(np.int64), starts) > 1))
    return step[starts], merged, repeated


def first_of_blocks(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, int]:
    """Rows to keep where a tool repeated records under new steps, and how often it wrote each; 1 where it did not."""
    n = len(columns["reward"])
    everything = np.arange(n)
    if n < 2 * _MIN_STEPS:
        return everything, 1
    changed = np.zeros(n - 1, dtype=bool)
    for values in columns.values():
        a, b = values[1:], values[:-1]
        changed |= (a != b) & ~(np.isnan(a) & np.isnan(b))
    starts = np.r_[0, np.flatnonzero(changed) + 1]
    lengths = np.diff(np.r_[starts, n])
    sizes, counts = np.unique(lengths, return_counts=True)
    block = int(sizes[np.argmax(counts)])
    enough = len(lengths) >= _MIN_STEPS and counts.max() >= _SHARE * len(lengths)
    whole = not np.any(lengths[1:-1] % block)
    if block < 2 or not enough or not whole or (len(columns) == 1 and block == 2):
        return everything, 1
    offset = everything - np.repeat(starts, lengths)
    return np.flatnonzero(offset % block == 0), block


def usual_spacing(step: np.ndarray) -> int | None:
    """The whole number of steps between rows, where at least four gaps in five have it; else None."""
    if len(step) < 3:
        return None
    gaps, counts = np.unique(np.diff(step), return_counts=True)
    gap = float(gaps[np.argmax(counts)])
    if counts.max() < _SHARE * counts.sum() or gap != round(gap) or gap < 1:
        return None
    return int(gap)
