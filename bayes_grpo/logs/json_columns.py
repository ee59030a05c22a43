"""Lists of numbers in an object of JSON as columns: what is a row, what has steps of its own, what is a run each."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayes_grpo.common.text import listed
from bayes_grpo.logs.formats import Parsed
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.run import Caution
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.trainers import GENERIC

STEPS = frozenset(key for group in GENERIC.steps for key in group)
_STEPS_OF = re.compile(r"(?:^|[_/])(?:steps?|iterations?|iters?|updates?)$")
"""The end of a name of a list of steps, such as "eval_steps"."""
METRIC = re.compile(r"step|reward|score|loss|iter|update|accuracy", re.IGNORECASE)
_DIGITS = re.compile(r"\d{1,9}$")
_A_METRIC = re.compile(rf"{METRIC.pattern}|kl|entropy|length|tokens|grad|pass|std|time|layer|group", re.IGNORECASE)
_OF_EVALUATION = re.compile(r"(?:eval|val|valid|validation|test|dev|held_?out)[_/]")
_LEAST_SPREAD = 5
"""Values of an evaluation from which on they are spread over the rows."""


def name_runs(columns: Collection[str]) -> bool:
    """Whether names of lists of numbers are those of runs, which differ by a number, as of a seed, and name no metric.

    A number in every name tells runs of one kind, such as "base-s0", "base-s1" and "other-s0", from metrics.
    """
    kinds = {_DIGITS.sub("#", name) for name in columns}
    numbered = all(_DIGITS.search(name) for name in columns)
    return numbered and len(columns) >= 2 * len(kinds) and not any(map(_A_METRIC.search, columns))


def number_lists(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Lists of numbers, each a column: of the length of rewards, else of the greatest."""
    columns = {
        k: v for k, v in document.items() if isinstance(v, list) and np.isfinite([to_float(x) for x in v[:50]]).any()
    }
    lengths = [len(v) for k, v in columns.items() if "reward" in k.lower()] or [len(v) for v in columns.values()]
    return {k: v for k, v in columns.items() if len(v) == max(lengths)}


def with_other_steps(found: Parsed, document: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> Parsed:
    """The columns with what an object has at other steps: numbers by step, lists of another length with their steps.

    Evaluations without steps whose number divides that of the rows are spread over these; other lists of a length for
    which no steps are given are left out with a note.
    """
    step = next((key for key in columns if normal(key) in STEPS), "")
    series: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {}
    rest: dict[int, dict[str, list[Any]]] = {}
    for name, value in document.items():
        if isinstance(value, dict) and value and all(to_float(x) == to_float(x) for x in (*value, *value.values())):
            series[name] = [*value], [*value.values()]
        elif isinstance(value, list) and name not in columns and any(to_float(x) == to_float(x) for x in value[:50]):
            rest.setdefault(len(value), {})[name] = value
    left: list[str] = []
    for n, lists in rest.items():
        at = next((lists[name] for name in lists if step and _STEPS_OF.search(normal(name))), None)
        spread = {name: x for name, x in lists.items() if step and _OF_EVALUATION.match(normal(name))}
        every = len(columns[step]) // n if step else 0
        if at is None and spread and n >= _LEAST_SPREAD and every * n == len(columns[step]):
            series |= {name: (columns[step][every - 1 :: every], values) for name, values in spread.items()}
            lists = {name: x for name, x in lists.items() if name not in spread}
            what = listed((f"{name} ({n} values)" for name in spread), 6)
            found = found.noted(Caution(f"no steps are given for {what}: spread evenly, one in every {every} rows"))
        if at is None:
            left += [f"{name} ({n} values)" for name in lists]
        else:
            series |= {name: (at, values) for name, values in lists.items() if values is not at}
    for name, (steps, values) in series.items() if step else ():
        found = replace(found, table=found.table.appended(Table.from_columns({step: steps, name: values})))
    without = f"left out because no steps are given for their number of values: {listed(left, 6)}"
    return found.noted(Caution(without)) if left else found
