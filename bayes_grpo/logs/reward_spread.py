"""What a logged reward_std means: the spread within groups, or of all rewards."""

from __future__ import annotations

import numpy as np

from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.table import Table

_GROUPLESS = 0.05
"""Share of groups without spread that a mean reward makes sure of, above which a logged 0 is not of groups."""
_CLOSE = 0.05
_MIN_ROWS = 5


def spread_kind(table: Table, columns: dict[str, np.ndarray]) -> tuple[str, str]:
    """Whether reward_std is "within" groups or "total", and why; "unknown" where the log cannot tell.

    Three tests, each valid on its own: groups without any spread cannot leave a within-group std; a single
    reward function logs its own total std beside; a binary reward of mean p has the total std √(p(1 − p)).

    Args:
        table: Rows in file order under raw keys.
        columns: Canonical columns of the same rows.
    """
    std = columns.get("reward_std")
    if std is None or np.sum(np.isfinite(std)) < 1:
        return "unknown", "reward_std is not logged"
    flat = columns.get("frac_reward_zero_std")
    if flat is not None:
        rows = (flat > 0.999) & np.isfinite(std)
        if np.sum(rows & (std > 1e-4)) > 0.5 * max(np.sum(rows), 1):
            return "total", "reward_std is above 0 where every group has none"
    own = _std_of_single_reward(table)
    if own is not None:
        rows = np.isfinite(own) & np.isfinite(std) & (own > 1e-6) & (std >= 0)
        if np.sum(rows) >= _MIN_ROWS:
            ratio = float(np.median(std[rows] / own[rows]))
            if abs(ratio - 1) < 0.01:
                return "total", "reward_std equals the std of the only reward function"
            if ratio < 1 - _CLOSE:
                return "within", f"reward_std is {ratio:.2f} of the total std of the only reward function"
    return _binary(columns["reward"], std)


def _binary(reward: np.ndarray, std: np.ndarray) -> tuple[str, str]:
    rows = np.isfinite(reward) & np.isfinite(std)
    if np.any((reward[rows] < 0) | (reward[rows] > 1)):
        return "unknown", "the log does not tell"
    rows &= (reward > 0.05) & (reward < 0.95)
    if np.sum(rows) < _MIN_ROWS:
        return "unknown", "the log does not tell"
    p = reward[rows]
    ratio = std[rows] / np.sqrt(p * (1 - p))
    if abs(np.median(ratio) - 1) < _CLOSE and np.mean(np.abs(ratio - np.median(ratio)) < _CLOSE) > 0.8:
        return "total", "reward_std is that of a binary reward over all completions, sqrt(p(1 - p))"
    return "unknown", "the log does not tell"


def _std_of_single_reward(table: Table) -> np.ndarray | None:
    found = [k for group in KeyIndex(table).find(("rewards/*/std", "rewards/**/std"), ("", "train/")) for k in group]
    unique = list(dict.fromkeys(found))
    return table.column(unique[0]) if len(unique) == 1 else None


def share_without_spread_of(run: Run) -> str:
    """What the logged share of groups without spread (frac_reward_zero_std) is a share of.

    TRL computes it from the spread that advantages are divided by. Under batch scaling and GDPO that is the whole
    batch's, and the share is 0 or 1 whatever the groups do. Where the log does not state the scaling, a value between
    0 and 1 is of groups. 0 throughout is not, where binary rewards of the logged means in groups of the known size must
    leave some without spread (by Jensen at least p^G + (1 - p)^G of them).

    Returns:
        "groups", "batch" or "unknown".
    """
    share = run.signals.get("frac_reward_zero_std")
    known = share[np.isfinite(share)] if share is not None else np.empty(0)
    if not len(known):
        return "unknown"
    if np.any((known > 1e-6) & (known < 1.0 - 1e-6)):
        return "groups"
    scaling = run.settings.advantage_scaling.value
    if scaling in ("batch", "gdpo"):
        return "batch"
    if scaling in ("group", "none"):
        return "groups"
    size = run.settings.group_size.value
    p = run.reward[np.isfinite(run.reward)]
    if not np.any(known) and size and len(p) and p.min() >= 0.0 and p.max() <= 1.0:
        least = float(np.mean(p**size + (1.0 - p) ** size))
        return "batch" if least > _GROUPLESS else "unknown"
    return "unknown"
