"""Rows that hold sums over a number of completions, instead of means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bayes_grpo.logs.lines import names_reward
from bayes_grpo.logs.table import to_float

_TOTAL = re.compile(r"(?:total|sum)_(?=\w{0,40}(?:reward|score|correct))(\w{1,60})", re.IGNORECASE)
"""The name of a sum of rewards over completions."""
_NUMBER = re.compile(
    r"(?:total|num|n)_(?:num|count|samples|completions|rollouts|responses|total|examples)", re.IGNORECASE
)
"""The name of the number of completions that such a sum is over."""


def means_of_totals(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with sums as means: ``{"total_num": 256, "total_reward": 144}`` is a reward of 0.5625."""
    if (number := _number_in(row)) is None:
        return dict(row)
    means = {key: found[1] for key in row if (found := _TOTAL.fullmatch(key)) is not None and found[1] not in row}
    return {means.get(key, key): to_float(x) / number if key in means else x for key, x in row.items()}


def of_single_completions(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Places of the rows with a reward that state no number of completions, where most others do: shown samples."""
    counting = {i for i, row in enumerate(rows) if _number_in(row) is not None}
    others = {i for i, row in enumerate(rows) if i not in counting and names_reward(row)}
    return others if len(counting) > len(others) else set()


def _number_in(row: Mapping[str, Any]) -> float | None:
    """The number of completions that a row with sums of rewards states."""
    if not any(map(_TOTAL.fullmatch, row)):
        return None
    numbers = [to_float(value) for key, value in row.items() if _NUMBER.fullmatch(key)]
    return numbers[0] if len(numbers) == 1 and numbers[0] >= 1 else None
