"""Logs with two counters, rollouts and the updates made with them: one axis of steps, and one row a rollout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.errors import LogReadError

_MIN_ROLLOUTS = 5
_SHARE = 0.8

ROLLOUTS = ("grpo_step", "rollout_step", "rollout/step", "rollout_id", "rollout")
"""Keys that count rollouts where others count optimizer steps."""

_CLOSE = 0.25


def on_updates(updates: np.ndarray, rollouts: np.ndarray) -> tuple[np.ndarray, int]:
    """One axis out of two, shape (n,): updates as they are, rollouts at their first update; and updates of a rollout.

    ``updates`` and ``rollouts`` are numbers from 0, shape (n,), NaN on rows of the other kind. The updates made with a
    rollout are those between its first row and the next's; in files of their own their numbers tell.
    """
    made, drawn = (np.unique(x, return_index=True)[1] for x in (updates, rollouts))
    made, drawn = np.sort(made[np.isfinite(updates[made])]), np.sort(drawn[np.isfinite(rollouts[drawn])])
    each = 1
    if len(made) and len(drawn):
        between = np.diff(np.searchsorted(made, drawn))
        sizes, counts = np.unique(between[between > 0], return_counts=True)
        ratio = len(made) / len(drawn)
        if len(sizes) and counts.max() >= _SHARE * counts.sum():
            each = int(sizes[np.argmax(counts)])
        elif abs(ratio - round(ratio)) > _CLOSE:
            raise LogReadError(
                f"expected the same number of updates with each rollout, found {len(made)} with {len(drawn)}; "
                f"name the step with --column step=KEY"
            )
        else:
            each = max(round(ratio), 1)
    return np.where(np.isfinite(updates), updates, each * rollouts), each


def first_updates(step: np.ndarray, rollout: np.ndarray) -> np.ndarray:
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


def means_of_rollouts(rollout: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Mean of each column over the rows of every rollout, shape (rollouts,) each; NaN where it has no value there."""
    numbers, place = np.unique(rollout, return_inverse=True, equal_nan=True)
    numbers = numbers[np.isfinite(numbers)]  # NaN is last
    found = []
    for values in columns:
        there = np.isfinite(rollout) & np.isfinite(values)
        total = np.bincount(place[there], values[there], len(numbers))
        count = np.bincount(place[there], minlength=len(numbers))
        found.append(np.where(count > 0, total / np.maximum(count, 1), np.nan)[: len(numbers)])
    return found


def repeated_rows(rollout: np.ndarray, step: np.ndarray, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Column → rows to leave out, shape (n,), because they repeat what an earlier update of the rollout logged.

    Empty where rows are not updates of shared rollouts. All arrays are in file order; ``columns`` holds "reward".
    """
    rows = np.flatnonzero(np.isfinite(rollout) & np.isfinite(step) & np.isfinite(columns["reward"]))
    if len(rows) < 2 * _MIN_ROLLOUTS:
        return {}
    same = (np.diff(rollout[rows]) == 0) & (np.diff(step[rows]) > 0)
    sizes = np.diff(np.flatnonzero(np.r_[True, ~same, True]))
    if len(sizes) < _MIN_ROLLOUTS or np.mean(sizes > 1) < _SHARE:
        return {}
    found = {}
    for name, values in columns.items():
        equal = same & (values[rows[1:]] == values[rows[:-1]])
        if np.sum(equal) == np.sum(same):
            again = np.zeros(len(values), dtype=bool)
            again[rows[1:][equal]] = True
            found[name] = again
    return found if "reward" in found else {}
