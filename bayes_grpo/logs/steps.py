"""The step of a log and its other counters: rollouts, the updates made with each, epochs, on one axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.errors import MENDING, LogReadError
from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.columns import Columns
from bayes_grpo.logs.keyindex import KeyIndex, column, normal
from bayes_grpo.logs.trainers import GENERIC

_MIN_STEPS = 5
_LEAST = 2
_SHARE = 0.8
ROLLOUTS = ("grpo_step", "rollout_step", "rollout/step", "rollout_id", "rollout")
"""Keys that count rollouts where others count optimizer steps."""
_COUNTERS = (*ROLLOUTS, "optimizer_step", "optim_step", "train_step", "update", "update_step", "policy_step")
"""Keys that count rollouts or updates, for a second counter."""
_STEP_KEYS = (*(key for group in GENERIC.steps for key in group), "episode", "epoch")
"""Keys that may count rows where another of them does not."""
_COUNTED = (("timesteps", "total_timesteps"), ("episode",))
"""Counters of scripts without a step; trainers log it next to their step."""


def step_of(columns: Columns, named: str | None) -> np.ndarray | None:
    """The step of each row, by the key that the user named, the trainer's keys or those of all; None without one."""
    index = columns.index
    trainer = columns.trainer
    table = columns.index.table
    if named:
        return columns.use("step", [index.named(named, "step")])
    groups = (*trainer.steps, *GENERIC.steps, *(_COUNTED if trainer is GENERIC else ()))
    for group in groups:
        present = [found[0] for found in index.find(group)]
        if group is not trainer.steps[0] or trainer is GENERIC:
            present = [key for key in present if not _is_length(index, key)]
        if not present:
            continue
        drawn = [found[0] for found in index.find(trainer.rollouts)] if group is trainer.steps[0] else []
        columns.use("step", [*present, *drawn], " or ".join((*present, *drawn)))
        step = index.merged(present)
        if drawn:
            step, each = _on_updates(step, index.merged(drawn))
            if each > 1:
                columns.notes.append(f"{each} updates a rollout; a rollout is placed at the first of them")
        return step
    unread = [k for k in table.keys if normal(k) in {name for group in groups for name in group}]
    if unread and table.n:
        raise LogReadError(
            f"expected the step as a number, found {listed(unread)} without one in {table.n} rows; "
            f"repair it or name another key with {MENDING}: {listed(index.keys)}",
            mended_by=column("step"),
        )
    key = index.first(("epoch",)) if trainer is GENERIC else None
    epoch = table.column(key or "")
    whole = not np.any(epoch % 1 > 0) and np.all(np.diff(epoch[np.isfinite(epoch)]) > 0)
    return columns.use("step", [key]) if key is not None and whole else None


def place_cut_row(columns: Columns) -> None:
    """Gives a last row that ends before its step the step after the others', where these are equally far apart.

    Such a row has the keys with which the one before begins, at least two.
    """
    step, table = columns.step, columns.index.table
    if step is None or table.n < _MIN_STEPS or np.isfinite(step[-1]) or not np.isfinite(columns.train["reward"][-1]):
        return
    spacing = np.diff(step[:-1])
    last, before = ([key for key in table.keys if np.isfinite(table.column(key)[i])] for i in (-1, -2))
    even = np.isfinite(step[:-1]).all() and spacing[0] > 0 and np.ptp(spacing) == 0
    if not even or len(last) < _LEAST or last != before[: len(last)]:
        return
    following = float(step[-2] + spacing[0])
    columns.step = np.r_[step[:-1], following]
    columns.notes.append(f"the last row ends before its step, taken for {following:g}, as far on as the others")


def _is_length(index: KeyIndex, key: str) -> bool:
    """True if a key such as "steps" says how long a row's episode was, beside a counter that rises by one a row.

    What counts rises from most rows to the next and falls back to its start; what never falls, and is not the same in
    all rows, may count too.
    """
    values = index.table.column(key)
    known = np.isfinite(values)
    change = np.diff(values[known])
    if known.sum() < _LEAST:
        return False
    falls = values[known][1:][change < 0]
    rises = float(np.mean(change > 0))
    if np.any(change) and (not len(falls) or rises >= _SHARE or np.all(falls == values[known].min())):
        return False
    counters = (index.table.column(other) for found in index.find(_STEP_KEYS) for other in found if other != key)
    return any(bool(np.all(np.isfinite(x[known]))) and np.all(np.diff(x[known]) == 1.0) for x in counters)


def _on_updates(updates: np.ndarray, rollouts: np.ndarray) -> tuple[np.ndarray, int]:
    """One axis out of two, shape (n,): updates as they are, rollouts at their first update; and updates of a rollout.

    ``updates`` and ``rollouts`` are numbers from 0, shape (n,), NaN on rows of the other kind. The updates made with a
    rollout are those between its first row and the next's; in files of their own their numbers tell.
    """
    made, drawn = (np.unique(x, return_index=True)[1] for x in (updates, rollouts))
    made = np.sort(made[np.isfinite(updates[made])])
    drawn = np.sort(drawn[np.isfinite(rollouts[drawn])])
    each = 1
    if len(made) and len(drawn):
        between = np.diff(np.searchsorted(made, drawn))
        sizes, counts = np.unique(between[between > 0], return_counts=True)
        ratio = len(made) / len(drawn)
        if len(sizes) and counts.max() >= _SHARE * counts.sum():
            each = int(sizes[np.argmax(counts)])
        elif abs(ratio - round(ratio)) > 0.25:
            raise LogReadError(
                f"expected the same number of updates with each rollout, found {len(made)} with {len(drawn)}; "
                f"name the step with {MENDING}",
                mended_by=column("step"),
            )
        else:
            each = max(round(ratio), 1)
    return np.where(np.isfinite(updates), updates, each * rollouts), each


def share_rollouts(columns: Columns) -> None:
    """Puts rows of rollouts at the updates made with them, and takes out what updates of one rollout only repeat."""
    columns.rows_without_rollout = columns.trainer.rows_without_rollout
    counter = columns.index.first(ROLLOUTS)
    step = columns.step
    if counter is None or counter in columns.raw.get("step", ()) or step is None:
        return
    rollout = columns.index.table.column(counter)
    columns.step = _first_updates(step, rollout)
    again = _repeated_rows(rollout, columns.step, columns.train)
    for name, rows in again.items():
        columns.train[name][rows] = np.nan
    if again:
        columns.notes.append(
            f"several updates for each {counter!r}: {counted(int(np.sum(again['reward'])), 'row')} that repeat a "
            f"rollout's reward left without one"
        )
    columns.rows_without_rollout |= bool(again) or bool(np.any(np.isfinite(columns.step) & ~np.isfinite(step)))


def _first_updates(step: np.ndarray, rollout: np.ndarray) -> np.ndarray:
    """Steps, where a row without one but with a rollout is placed at the first update that was made with it.

    ``step`` and ``rollout`` have the shape (n,), NaN where a row has none; so has the result where no row tells.
    """
    known = np.isfinite(step) & np.isfinite(rollout)
    numbers, place = np.unique(rollout[known], return_inverse=True)
    first = np.full(len(numbers), np.inf)
    np.minimum.at(first, place, step[known])
    lost = ~np.isfinite(step) & np.isin(rollout, numbers)
    out = step.copy()
    out[lost] = first[np.searchsorted(numbers, rollout[lost])]
    return out


def _repeated_rows(rollout: np.ndarray, step: np.ndarray, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Column → rows to leave out, shape (n,), because they repeat what an earlier update of the rollout logged.

    Empty where rows are not updates of shared rollouts. All arrays are in file order; ``columns`` holds "reward".
    """
    rows = np.flatnonzero(np.isfinite(rollout) & np.isfinite(step) & np.isfinite(columns["reward"]))
    if len(rows) < 2 * _MIN_STEPS:
        return {}
    same = (np.diff(rollout[rows]) == 0) & (np.diff(step[rows]) > 0)
    sizes = np.diff(np.flatnonzero(np.r_[True, ~same, True]))
    if len(sizes) < _MIN_STEPS or np.mean(sizes > 1) < _SHARE:
        return {}
    again = np.isin(np.arange(len(rollout)), rows[1:][same])
    found = {k: again for k, v in columns.items() if np.array_equal(v[rows[1:][same]], v[rows[:-1][same]])}
    return found if "reward" in found else {}


def over_epochs(columns: Columns) -> None:
    """Lets steps go on from one epoch to the next, where they count within an epoch; those of an episode are parts."""
    key = columns.index.first(("epoch", "train/epoch", "episode"))
    if columns.step is None or key is None or columns.keys.get("step") == key:
        return
    epoch = columns.index.table.column(key)
    step = columns.step
    rows = np.flatnonzero(np.isfinite(columns.train["reward"]) & np.isfinite(step) & np.isfinite(epoch))
    back = step[rows[1:]] < step[rows[:-1]]
    if not back.any() or np.any((epoch[rows[1:]] > epoch[rows[:-1]]) != back):
        return
    if normal(key) == "episode":
        columns.step = columns.use("step", [key])
        columns.counter = None
        columns.notes.append("steps count within an episode; an episode is a row")
        return
    whole = columns.index.first(("global_step", "global_steps", "total_steps", "training_step"), GENERIC.prefixes)
    overall = columns.index.table.column(whole or "")
    if whole is not None and np.all(np.diff(overall[rows]) > 0.0):
        columns.step = columns.use("step", [whole])
        columns.notes.append(f"steps count within an epoch; {whole!r} goes on from one {key!r} to the next")
        return
    begins = np.r_[0, rows[1:][back]]
    ends = [np.nanmax(part) for part in np.split(step, begins[1:])]
    offset = np.cumsum(np.r_[0.0, np.array(ends[:-1]) + (np.nanmin(step) == 0)])
    columns.step = step + offset[np.searchsorted(begins, np.arange(len(step)), side="right") - 1]
    columns.notes.append(f"steps count within an epoch; they go on from one {key!r} to the next")


def second_counter(columns: Columns) -> str | None:
    """The key of another counter than the step's that goes its own way; None where there is none."""
    if (step := columns.step) is None:
        return None
    found = (columns.index.first((name,), GENERIC.prefixes) for name in _COUNTERS)
    for key in (key for key in found if key is not None and key not in columns.raw["step"]):
        values = columns.index.table.column(key)
        both = np.isfinite(values) & np.isfinite(step)
        if both.sum() > 2 and np.ptp(values[both]) > 0 and np.ptp((values - step)[both]) > 0:
            return key
    return None


def counter_of(keys: Mapping[str, str]) -> str:
    """Unit of the step, by its key: "optimizer step", "rollout step", "log row" or the log's own word."""
    name = normal(keys.get("step", "")).split("_or_")[0].split(" or ")[0]
    last = name.rpartition("/")[2]
    if not name or last == "_step":
        return "log row"
    if name in ROLLOUTS or last in ROLLOUTS:
        return "rollout step"
    words = ("iteration", "iter", "batch", "episode", "epoch", "timesteps", "total_timesteps")
    return last.removesuffix("s") if last in words else "optimizer step"
