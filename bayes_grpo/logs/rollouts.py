"""Logs with a row for every optimizer update, several of which share one rollout.

The rollout is the unit of what a reward tells: its completions are counted once, at the first update made with them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_MIN_ROLLOUTS = 5
_SHARE = 0.8


def on_updates(updates: np.ndarray, rollouts: np.ndarray) -> tuple[np.ndarray, int]:
    """One axis out of two: rows of updates as they are, rows of rollouts at their first update.

    Args:
        updates: Number of the update, from 0, shape (n,), NaN on rows of rollouts.
        rollouts: Number of the rollout, from 0, shape (n,), NaN on rows of updates.

    Returns:
        Steps, shape (n,), and the updates made with a rollout.
    """
    made, drawn = (len(np.unique(x[np.isfinite(x)])) for x in (updates, rollouts))
    each = max(round(made / drawn), 1) if made and drawn else 1
    return np.where(np.isfinite(updates), updates, each * rollouts), each


def said_again(rollout: np.ndarray, step: np.ndarray, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
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
