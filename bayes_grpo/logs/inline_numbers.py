"""Numbers that a line of console text tells by name, beside the dicts of metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bayes_grpo.logs.table import to_float

_PAIRS = re.compile(
    r"((?:(?<![\w/.])[A-Za-z_][\w/]{0,60}\s?[:=]\s?[-+.\deE]{1,40},\s){1,40})[A-Za-z_]\w{0,40}\s?[:=]\s?\Z"
)
"""Numbers with names that stand on the line of a dict, before its own name: "loss: 0.1, entropy: 0.8, rewards: {"."""
_PAIR = re.compile(r"([A-Za-z_][\w/]{0,60})\s?[:=]\s?([-+.\deE]{1,40})")
_EVALUATED_KEY = (
    r"(?:eval|val|valid|validation|test|held_?out)[_/](?:mean_|avg_)?"
    r"(?:acc|accuracy|reward|score|pass@?_?1|success_rate|solve_rate)(?:_mean)?"
)
_EVALUATED_KEYS = re.compile(rf"{_EVALUATED_KEY}(?: {_EVALUATED_KEY})*")
_EVALUATED = re.compile(rf"(?<![\w/.'\"])({_EVALUATED_KEY})\s?[:=]\s?(-?\d{{1,9}}(?:\.\d{{1,20}})?)(?![\w%])")
_MAX_LENGTH = 200
"""Characters of a line that tells an evaluation; a longer one is prose, or a table."""


def numbers_before(text: str) -> dict[str, float]:
    """The numbers that a line names before a dict of it."""
    pairs = _PAIRS.search(text)
    return {name: to_float(value) for name, value in _PAIR.findall(pairs[1])} if pairs else {}


def evaluation_in(line: str) -> dict[str, float]:
    """The evaluations that a short line of text tells, "rollout batch 10 done, eval_acc: 0.6"."""
    found = _EVALUATED.findall(line) if len(line) <= _MAX_LENGTH else []
    return {name: to_float(value) for name, value in found}


def only_evaluations(keys: Iterable[str]) -> bool:
    """True if a row has nothing but keys that :func:`evaluation_in` finds."""
    return _EVALUATED_KEYS.fullmatch(" ".join(keys)) is not None
