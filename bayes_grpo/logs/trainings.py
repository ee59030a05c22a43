"""The trainings in a log, of which one is read.

A training begins after a closing line of a trainer, where steps or epochs go back to their start, where a column names
another run, and where rewards begin after rows without any. Where the steps go on, the training was resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.columns import Columns
from bayes_grpo.logs.formats import Parsed, chosen_run, main_run
from bayes_grpo.logs.hygiene import MAX_RESUMES, repeats
from bayes_grpo.logs.run import LoggedTraining
from bayes_grpo.logs.table import RUN_KEYS, Table

CLOSING = ("train_runtime", "train/train_runtime")
"""Keys that only the line has that closes a training."""
_LEAST = 2
_ROWS_BEFORE = 3
"""Rows without a reward before the first one, from which on they are another training's."""
_SHARE = 0.8


def closing_rows(table: Table) -> np.ndarray:
    """Rows that close a training, shape (n,)."""
    return np.logical_or.reduce([np.isfinite(table.column(key)) for key in CLOSING])


def starts_of(
    closing: np.ndarray, columns: Mapping[str, np.ndarray], step: np.ndarray | None, epoch: np.ndarray
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Rows at which trainings begin, after the first, and steps at which one was resumed after its closing line.

    An epoch stands in for the step where the log has none. Rows are in file order; ``columns`` are "reward" and "loss";
    all arrays have the shape (n,).
    """
    train = np.logical_or.reduce([np.isfinite(x) for x in columns.values()]) & ~closing
    axis = epoch if step is None or np.isfinite(step[train]).sum() < _LEAST else step
    placed = bool(np.isfinite(axis[train]).sum() >= _LEAST)
    rows = np.flatnonzero(train & np.isfinite(axis)) if placed else np.flatnonzero(train)
    if len(rows) < _LEAST:
        return (), ()
    at = axis[rows] if placed else np.zeros(len(rows))
    shut = np.diff(np.cumsum(closing)[rows]) > 0
    places = set((1 + np.flatnonzero(shut | (at[1:] < at[:-1]))).tolist())
    if len(places) > MAX_RESUMES:
        return (), ()
    values = {name: column[rows] for name, column in columns.items()}
    loss, reward = (np.isfinite(values[name]) for name in ("loss", "reward"))
    first = int(np.argmax(reward))  # where rows of another training are before it
    another = loss[:first].sum() >= _ROWS_BEFORE and loss[first] and reward[first:][loss[first:]].mean() > _SHARE
    first = first if another else 0
    ordered = sorted(places | {first} - {0})
    begun = 0
    starts = []
    resumed = []
    for k, end in pairwise([*ordered, len(rows)]):
        goes_on = placed and at[k] > at[begun:k].max()
        closed = bool(shut[k - 1])
        if goes_on and k != first:
            resumed += [float(at[k])] if closed and axis is step else []
            continue
        if k == first or (closed and not placed) or _starts_over(at, values, slice(begun, k), slice(k, end), closed):
            between = np.arange(rows[k - 1], rows[k])
            own = axis[between] < at[k] if goes_on else axis[between] > at[k:end].min()
            starts.append(int(between[own | closing[between] | (between == rows[k - 1])][-1]) + 1)
            begun, resumed = k, []
    return tuple(starts), tuple(resumed)


def _starts_over(at: np.ndarray, values: Mapping[str, np.ndarray], before: slice, after: slice, closed: bool) -> bool:
    """True if rows begin a training of their own, and do not merely repeat, complete or sort those before them."""
    old, new = at[before], at[after]
    if new[0] > max(old[0], 0.9 * old.min() + 0.1 * old.max() if closed else old[0]):
        return False
    if len(new) >= _LEAST and new.max() < old.min():
        return True  # of another part of a text, whose end alone stands before
    inside = (np.sum((x >= y.min()) & (x <= y.max())) for x, y in ((old, new), (new, old)))
    if not closed and min(inside) < _LEAST:
        return False
    shared = [v for v in values.values() if np.isfinite(v[before]).any() and np.isfinite(v[after]).any()]
    return not all(repeats(old, v[before], new, v[after]) for v in shared)


def chosen_training(
    parsed: Parsed, columns: Columns, wanted: str | None
) -> tuple[Parsed, tuple[LoggedTraining, ...], tuple[float, ...]]:
    """The training to read: the wanted one, else the only one with rewards, else the last with rewards.

    With it come all trainings, none where the log is one, and the steps of its resumes.
    """
    table = parsed.table
    closing = closing_rows(table)
    reward = columns.train["reward"] if np.isfinite(columns.train["reward"]).any() else columns.evals
    loss = columns.train.get("loss", np.full(table.n, np.nan))
    parts = _by_label(table, columns.step, np.isfinite(reward) | np.isfinite(loss))
    resumed: tuple[float, ...] = ()
    if not parts:
        epochs = table.column(columns.index.first(("epoch", "train/epoch")) or "")
        starts, resumed = starts_of(closing, {"reward": columns.train["reward"], "loss": loss}, columns.step, epochs)
        ends = pairwise((0, *(parsed.starts or starts), table.n))
        parts = {f"training {i}": np.arange(start, end) for i, (start, end) in enumerate(ends, 1)}
    steps = ", ".join(f"{s:g}" for s in resumed)
    resume = (f"resumed at step {steps}, after a closing line",) if resumed else ()
    if len(parts) == 1:
        if not any(wanted in words for words in table.labels.values()):
            chosen_run(list(parts), wanted)
        return replace(parsed, notes=(*resume, *parsed.notes)), (), resumed
    logged = np.logical_or.reduce([np.isfinite(v) for v in (*columns.train.values(), columns.evals)]) & ~closing
    found = []
    for name, rows in parts.items():
        used = rows[logged[rows]]
        step = np.arange(1.0, len(used) + 1) if columns.step is None else columns.step[used]
        steps = np.unique(step[np.isfinite(step)])
        ends = (float(steps[0]), float(steps[-1])) if len(steps) else (None, None)
        rewards = int(np.isfinite(reward[rows[~closing[rows]]]).sum())
        found.append(LoggedTraining(name, len(steps), *ends, rewards))
    rewarded = [i for i, x in enumerate(found) if x.rewards >= _LEAST]
    rewarded = rewarded or [i for i, x in enumerate(found) if x.rewards] or [len(found) - 1]
    taken, why = _chosen(found, rewarded, wanted)
    other = found[rewarded[0] if len(rewarded) > 1 and taken != rewarded[0] else (taken + 1) % len(found)]
    left_out = listed([x.text for i, x in enumerate(found) if i != taken], 6)
    read = f"{found[taken].name} of {len(found)} in the log is read, {why}; --run '{other.name}' takes another"
    found[taken] = found[taken]._replace(taken=True)
    notes = (f"{read}; left out: {left_out}", *parsed.notes)
    parsed = replace(parsed, table=table.rows(list(parts.values())[taken]), notes=notes)
    if taken < len(found) - 1:
        return replace(parsed, total_steps=None), tuple(found), ()
    return replace(parsed, notes=(notes[0], *resume, *notes[1:])), tuple(found), resumed


def _chosen(found: list[LoggedTraining], rewarded: list[int], wanted: str | None) -> tuple[int, str]:
    """Place of the training to read among all, of which some have rewards, and why it is that one."""
    names = [x.name for x in found]
    main = main_run({x.name: x.rewards for x in found})
    if wanted is not None:
        return names.index(chosen_run(names, wanted)), "as --run names it"
    if len(rewarded) == 1:
        return rewarded[0], "the only one with rewards"
    if main is not None:
        return names.index(main), "with ten times the rewards of any other"
    return rewarded[-1], "the last with rewards"


def _by_label(table: Table, step: np.ndarray | None, train: np.ndarray) -> dict[str, np.ndarray]:
    """Run → its rows, where a column names runs and their steps are not one after another; else nothing."""
    for key in table.keys:
        if key.strip().lower() not in RUN_KEYS:
            continue
        words = table.labels.get(key) or [f"{key}={x:g}" if x == x else "" for x in table.column(key).tolist()]
        names, place = np.unique(np.array(words, dtype=object).astype(str), return_inverse=True)
        rows = {clean(name): np.flatnonzero(place == i) for i, name in enumerate(names) if name.strip()}
        rows = {name: r for name, r in rows.items() if train[r].sum() >= _LEAST}
        rows = dict(sorted(rows.items(), key=lambda x: x[1][0]))
        at = [] if step is None else [step[r[train[r]]] for r in rows.values()]
        begins = [np.nanmin(steps) for steps in at if np.isfinite(steps).any()]
        overlap = any(b <= a for a, b in combinations(begins, 2))  # else the training was resumed
        if 1 < len(rows) <= MAX_RESUMES and (step is None or overlap):
            return rows
    return {}
