"""The axis of rollouts: rows counted by rollouts, and updates that share one."""

from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.errors import LogReadError

ROLLOUTS = ("grpo_step", "rollout_step", "rollout/step", "rollout_id", "rollout")
"""Keys that count rollouts beside the optimizer step."""

_MIN_ROLLOUTS = 5
_SHARE = 0.8
_CLOSE = 0.25


def on_updates(updates: np.ndarray, rollouts: np.ndarray) -> tuple[np.ndarray, int]:
    """One axis out of two: rows of updates as they are, rows of rollouts at their first update.

    Args:
        updates: Number of the update, from 0, shape (n,), NaN on rows of rollouts.
        rollouts: Number of the rollout, from 0, shape (n,), NaN on rows of updates.

    Returns:
        Steps, shape (n,), and the updates made with a rollout.

    Raises:
        LogReadError: The updates made with a rollout cannot be told.
    """
    each = _updates_of_a_rollout(updates, rollouts)
    return np.where(np.isfinite(updates), updates, each * rollouts), each


def _updates_of_a_rollout(updates: np.ndarray, rollouts: np.ndarray) -> int:
    """From the updates between a rollout's first row and the next's; from their numbers where files keep them apart."""
    made, drawn = (np.unique(x, return_index=True)[1] for x in (updates, rollouts))
    made, drawn = np.sort(made[np.isfinite(updates[made])]), np.sort(drawn[np.isfinite(rollouts[drawn])])
    if not len(made) or not len(drawn):
        return 1
    between = np.diff(np.searchsorted(made, drawn))
    sizes, counts = np.unique(between[between > 0], return_counts=True)
    if len(sizes) and counts.max() >= _SHARE * counts.sum():
        return int(sizes[np.argmax(counts)])
    ratio = len(made) / len(drawn)
    if abs(ratio - round(ratio)) > _CLOSE:
        raise LogReadError(
            f"expected the same number of updates with each rollout, found {len(made)} with {len(drawn)}; "
            f"name the step with --column step=KEY"
        )
    return max(round(ratio), 1)


def first_updates(step: np.ndarray, rollout: np.ndarray) -> np.ndarray:
    """Steps, where a row without one but with a rollout is placed at the first update that was made with it.

    Args:
        step: Number of the update, shape (n,), NaN where a row has none.
        rollout: Number of the rollout, shape (n,), NaN where a row has none.

    Returns:
        Shape (n,); NaN where no row tells the update.
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
    """Mean of each column over the rows of every rollout, shape (rollouts,) each; NaN where it has no value there.

    Args:
        rollout: Number of the rollout, shape (n,), NaN where a row has none.
        *columns: Each of shape (n,).
    """
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
    """Where columns only repeat what an earlier update of the same rollout said.

    Args:
        rollout: Number of the rollout of each row in file order, shape (n,), NaN where it has none.
        step: Step of each row, shape (n,).
        columns: "reward" and signals, each of shape (n,).

    Returns:
        Column → rows to leave out, shape (n,). Empty where rows are not updates of shared rollouts.
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
