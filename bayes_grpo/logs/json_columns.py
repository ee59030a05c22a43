"""Lists of numbers in an object of JSON as columns: what is a row, what has steps of its own, what is a run each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from bayes_grpo.common.text import listed
from bayes_grpo.logs.formats import Parsed
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import names_reward
from bayes_grpo.logs.run import Caution
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.trainers import GENERIC

STEPS = frozenset(key for group in GENERIC.steps for key in group)
_EPISODES = frozenset(("episode", "episodes", "eval_episodes", "eval_at"))
_STEPS_OF = re.compile(r"(?:^|[_/])(?:steps?|iterations?|iters?|updates?)$")
"""The end of a name of a list of steps, such as "eval_steps"."""
METRIC = re.compile(r"step|reward|score|loss|iter|update|accuracy", re.IGNORECASE)
_DIGITS = re.compile(r"\d{1,9}$")
A_METRIC = re.compile(rf"{METRIC.pattern}|kl|entropy|length|tokens|grad|pass|std|time|layer|group", re.IGNORECASE)
_OF_EVALUATION = re.compile(r"(?:eval|val|valid|validation|test|dev|held_?out)[_/]")
_LEAST_SPREAD = 5
"""Values of an evaluation from which on they are spread over the rows."""
_CURVES = re.compile(r"(?:rewards?|scores?|returns?)_(?:per|by)_|(?:rewards?|scores?|returns?)_curves$")
"""The name of an object with a curve of rewards for each of its names."""
_MAX_DEPTH = 4


def name_runs(columns: Collection[str], within: str = "") -> bool:
    """True if names of lists of numbers are those of runs, which differ by a number, as of a seed, and name no metric.

    A number in every name tells runs of one kind, such as "base-s0", "base-s1" and "other-s0", from metrics. Several
    lists in an object that is named for curves of a reward, such as "rewards_per_episode", need no number.
    """
    if any(map(A_METRIC.search, columns)):
        return False
    if len(columns) > 1 and _CURVES.search(normal(within)):
        return True
    kinds = {_DIGITS.sub("#", name) for name in columns}
    return all(map(_DIGITS.search, columns)) and len(columns) >= 2 * len(kinds)


_OF_RUN = re.compile(r"(\w{1,80}?)_((?:v|run_?|seed_?)\d{1,9}|a|b|before|after)")
"""A name that ends as one run's does."""
_NEEDS_MORE = ("a", "b", "before", "after")
"""Ends that a name may have for another reason."""


def runs_by_end(columns: Mapping[str, list[Any]]) -> dict[str, dict[str, list[Any]]]:
    """Run → its columns by their names without the run's, where rewards differ by nothing but it; else nothing.

    ``reward_log_v1`` beside ``reward_log_v2`` are two runs where no other list reads like a reward; "_a" and "_b" where
    another list has both ends too. Columns without an end are those of all runs.
    """
    names = {key: found for key in columns if (found := _OF_RUN.fullmatch(key)) is not None}
    rewards = [key for key in columns if names_reward((key,))]
    if len(rewards) < 2 or any(key not in names for key in rewards) or len({names[key][1] for key in rewards}) > 1:
        return {}
    ends = [names[key][2] for key in rewards]
    stem = names[rewards[0]][1]
    others = Counter(found[1] for found in names.values() if found[2] in ends and found[1] != stem)
    if any(end in _NEEDS_MORE for end in ends) and len(ends) not in others.values():
        return {}
    return {end: of_run(columns, end, ends) for end in ends}


def of_run[T](values: Mapping[str, T], run: str, runs: Collection[str]) -> dict[str, T]:
    """Values by name, those whose name ends as another run's left out, and those of the run without its end."""
    ends = {key: found[2] if (found := _OF_RUN.fullmatch(key)) is not None else "" for key in values}
    shared = {key: value for key, value in values.items() if ends[key] not in runs}
    return shared | {key.removesuffix(f"_{run}"): value for key, value in values.items() if ends[key] == run}


def richest_part(document: dict[str, Any]) -> str | None:
    """The path of the object with the longest lists of numbers, of rewards and of a training before others.

    "" is the document itself, which stands before the objects in it; None where no object has such lists.
    """
    ranks = {}
    for path, part in objects_in(document).items():
        if lists := number_lists(part):
            of_training = not _OF_EVALUATION.match(f"{normal(path.rpartition('.')[2])}_")
            ranks[path] = (of_training, names_reward(lists), len(next(iter(lists.values()))))
    return max(ranks, key=lambda path: ranks[path], default=None)


def other_reward_lists(document: dict[str, Any], path: str) -> list[str]:
    """Lists that read like rewards in the objects that were not taken."""
    others = {place: number_lists(part) for place, part in objects_in(document).items() if place != path}
    return [f"{place}.{name}".lstrip(".") for place, lists in others.items() for name in lists if names_reward((name,))]


def objects_in(document: dict[str, Any], path: str = "", depth: int = _MAX_DEPTH) -> dict[str, dict[str, Any]]:
    """The document and the objects in it by their path, a list of numbers by step being none."""
    found = {path: document}
    for key, value in document.items():
        if isinstance(value, dict) and depth > 1:
            found |= objects_in(value, f"{path}.{key}".lstrip("."), depth - 1)
    return found


def number_lists(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Lists of numbers, each a column: of the length of rewards, else of the greatest."""
    lists = {k: v for k, v in document.items() if isinstance(v, list)}
    columns = {k: v for k, v in lists.items() if np.isfinite([to_float(x) for x in v[:50]]).any()}
    lengths = [len(v) for k, v in columns.items() if "reward" in k.lower()] or [len(v) for v in columns.values()]
    return {k: v for k, v in columns.items() if len(v) == max(lengths)}


def with_other_steps(found: Parsed, document: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> Parsed:
    """The columns with what an object has at other steps: numbers by step, lists of another length with their steps.

    Evaluations without steps whose number divides that of the rows are spread over these; other lists of a length for
    which no steps are given are left out with a note.
    """
    if not any(normal(key) in STEPS for key in columns) and _counts_rows(document, columns):
        rows = range(1, len(next(iter(columns.values()))) + 1)
        columns = {"step": rows, **columns}
        found = replace(found, table=Table.from_columns(columns))
    step = next((key for key in columns if normal(key) in STEPS), "")
    series: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {}
    rest: dict[int, dict[str, list[Any]]] = {}
    for name, value in document.items():
        if isinstance(value, dict) and value and all(to_float(x) == to_float(x) for x in (*value, *value.values())):
            series[name] = [*value], [*value.values()]
        elif isinstance(value, list) and name not in columns and any(to_float(x) == to_float(x) for x in value[:50]):
            rest.setdefault(len(value), {})[name] = value
    omitted: list[str] = []
    for n, lists in rest.items():
        at = next((lists[name] for name in lists if step and _places(name)), None)
        spread = {name: x for name, x in lists.items() if step and _OF_EVALUATION.match(normal(name))}
        every = len(columns[step]) // n if step else 0
        if at is None and spread and n >= _LEAST_SPREAD and every * n == len(columns[step]):
            series |= {name: (columns[step][every - 1 :: every], values) for name, values in spread.items()}
            lists = {name: x for name, x in lists.items() if name not in spread}
            what = listed((f"{name} ({n} values)" for name in spread), 6)
            found = found.noted(Caution(f"no steps are given for {what}: spread evenly, one in every {every} rows"))
        if at is None:
            omitted += [f"{name} ({n} values)" for name in lists]
        else:
            series |= {name: (at, values) for name, values in lists.items() if values is not at}
    for name, (steps, values) in series.items() if step else ():
        found = replace(found, table=found.table.appended(Table.from_columns({step: steps, name: values})))
    note = f"left out because no steps are given for their number of values: {listed(omitted, 6)}"
    return found.noted(Caution(note)) if omitted else found


def with_outer_steps(document: dict[str, Any], path: str, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Columns of an object without steps, with those of the same length that an object round it holds."""
    n = len(next(iter(columns.values())))
    outer = [part for place, part in objects_in(document).items() if path.startswith(place)]
    lists = {k: v for part in outer for k, v in part.items() if isinstance(v, list) and len(v) == n}
    steps = {key: values for key, values in lists.items() if normal(key) in STEPS}
    return steps | columns if not any(normal(key) in STEPS for key in columns) else columns


def _places(name: str) -> bool:
    """True if a list of this name says where the values of others stand."""
    return _STEPS_OF.search(normal(name)) is not None or normal(name) in _EPISODES


def _counts_rows(document: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> bool:
    """True if a shorter list of steps rises up to the number of rows, which therefore are a step each."""
    n = len(next(iter(columns.values())))
    lists = [[to_float(x) for x in v] for k, v in document.items() if isinstance(v, list) and v and _places(k)]
    return any(len(x) < n and x[-1] == n and all(b > a for a, b in pairwise(x)) for x in lists)
