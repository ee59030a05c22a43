"""Rows of several kinds in one log: the rewards of an evaluation are told from those of the training.

Scripts that write ``{"type": "eval", "reward": 0.4}`` between lines like ``{"type": "rollout", "reward": 0.2}`` use one
key for two things. The keys of such rows get "eval/" in front.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bayes_grpo.logs.keyindex import normal

_KINDS = frozenset(("type", "split", "phase", "mode", "stage", "kind", "event", "row_type", "record_type"))
"""Keys whose text says what a row is of."""
_EVALUATION = re.compile(
    r"(?:eval|evaluate|evaluation|val|valid|validation|validate|test|dev|held[-_ ]?out)", re.IGNORECASE
)
_KEPT = re.compile(
    r"(?:steps?|epochs?|iter|iterations?|updates?|rollouts?|batch|time|seconds)$"
    r"|(?:^|[/_])(?:eval|val|valid|validation|test|dev)(?:[/_]|$)"
)
"""Keys that count, and keys that say by themselves what they are of."""
_BEFORE = "eval/"


def told_apart(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is, or that of an evaluation with "eval/" before the keys of what was measured."""
    if _KINDS.isdisjoint(row) or not any(_is_evaluation(row.get(kind)) for kind in _KINDS):
        return row
    return {k if k in _KINDS or _KEPT.search(normal(k)) else f"{_BEFORE}{k}": v for k, v in row.items()}


def parted(columns: dict[str, Any]) -> dict[str, Any]:
    """The same for whole columns: those of an evaluation's rows beside the others.

    Args:
        columns: Key → values of all rows, lists or arrays of one length.
    """
    for name, values in columns.items():
        if normal(name) in _KINDS and isinstance(values, list):
            rows = np.array([_is_evaluation(v) for v in values], dtype=bool)
            if rows.any() and not rows.all():
                return _beside(columns, rows)
    return columns


def _beside(columns: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, values in columns.items():
        values = without_nan(values) if isinstance(values, np.ndarray) else values
        if _KEPT.search(normal(name)):
            out[name] = values
            continue
        out[name] = [None if held_out else v for v, held_out in zip(values, rows, strict=True)]
        out[f"{_BEFORE}{name}"] = [v if held_out else None for v, held_out in zip(values, rows, strict=True)]
    return out


def without_nan(values: np.ndarray) -> list[Any]:
    """An array's values as a list; NaN, which stands for a missing value in arrays and frames, as None."""
    return [None if x != x else x for x in values.tolist()]


def _is_evaluation(value: Any) -> bool:
    return type(value) is str and _EVALUATION.fullmatch(value.strip()) is not None
