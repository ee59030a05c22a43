"""Rows as they are written: those of an evaluation between those of the training, and steps written as text.

Scripts that write ``{"type": "eval", "reward": 0.4}`` between lines like ``{"type": "rollout", "reward": 0.2}`` use one
key for two things. The keys of such rows get "eval/" in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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


STEP_OF_STEPS = "global_step/max_steps"
"""Key of ms-swift's rows."""

_KEYS = (STEP_OF_STEPS, "iteration", "step", "global_step")
_PAIR = re.compile(r"\A\s*+(\d{1,15})\s*+/\s*+(\d{1,15})\s*+")


class StepCounter:
    """Iterates over rows, with "5/300" under a step's key replaced by 5.

    Attributes:
        planned: The planned steps that the last such text states, None where none does.
    """

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._rows = rows
        self.planned: float | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in self._rows:
            yield self._numbered(row)

    def _numbered(self, row: dict[str, Any]) -> dict[str, Any]:
        for key in _KEYS:
            value = row.get(key)
            if type(value) is str and (pair := _PAIR.fullmatch(value)) is not None:
                row = {**row, key: float(pair[1])}
                self.planned = float(pair[2]) or None
        return row
