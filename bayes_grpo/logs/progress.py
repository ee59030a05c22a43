"""Steps that a trainer writes as text, with the planned number behind: ``"global_step/max_steps": "5/300"``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

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
