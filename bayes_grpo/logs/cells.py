"""What a cell of a table in a text states: a step in words, a mean with its spread, the ends of a range."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from bayes_grpo.logs.table import to_float

LEAST_IN_TABLE = 2
"""Rows of a table, or of what a cell prints, that are a training where others may be one."""
_STEP_CELL = re.compile(
    r"(?:.{0,40}?\b(?P<word>step|iter|iteration|update|epoch|round|rollout|checkpoint|ckpt)s?\W{0,3})?"
    r"(?:(?:terminal|final|last)\s)?(?:[\d,.]{1,12}[km]?\s?(?:[-\u2013\u2014~]|to)\s?)?"
    r"(?P<step>\d(?:[,\s]?\d){0,12}(?:\.\d{1,3})?)(?P<unit>[km]?)\+?"
    r"(?:\s?/\s?[\d,]{1,12})?(?:\s?\(.{0,80}\))?",
    re.IGNORECASE,
)
"""A step in words, "iter 12", of all, "99/2000", in thousands, "50k", or the end of several, "1-100"."""
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6}
_SPAN = re.compile(r"[~≈]?\s?([-+\u2212]?[\d.]{1,12}%?)\s?(?:to|\u2013|~|\.\.)\s?([-+\u2212]?[\d.]{1,12}%?)")
HEAD_OF_STD = re.compile(r"\s?\(?(?:mean\s?)?±.*")
"""The end of a heading such as "reward (mean ± std)"."""
WITH_STD = re.compile(r"([-+\u2212]?[\d.]{1,12}%?)\s?(?:±|\+/?-)\s?([\d.]{1,12}%?)")


def step_in(cell: str) -> float:
    """The step that a cell states, NaN where it states none."""
    number = to_float(cell)
    found = None if math.isfinite(number) else _STEP_CELL.fullmatch(cell)
    return float(re.sub(r"[,\s]", "", found["step"])) * _UNITS[found["unit"].lower()] if found else number


def value_in(cell: str) -> str:
    """A cell as it is, a mean without its spread, or the middle of the values between which a metric lies."""
    if (found := WITH_STD.fullmatch(cell)) is not None:
        return found[1]
    if (found := _SPAN.fullmatch(cell)) is None:
        return cell
    low, high = to_float(found[1]), to_float(found[2])
    return f"{(low + high) / 2:.6g}" if math.isfinite(low + high) else cell


def are_steps(cells: Sequence[str]) -> bool:
    """Whether cells below no name of a step are steps in words that rise, but for a few other rows."""
    steps = [step_in(x[0]) for x in map(_STEP_CELL.fullmatch, cells) if x and x["word"]]
    return LEAST_IN_TABLE <= len(steps) >= len(cells) / 2 and all(b > a for a, b in pairwise(steps))
