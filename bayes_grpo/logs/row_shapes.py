"""Shapes of records that hold a part of a row each, or rows of several: long tables, charts, records in records.

Each function turns the records of one shape to those of rows with all metrics of a step; the first records tell the
shape, so that those of the usual one pass as they come.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.logs.formats import Parsed
from bayes_grpo.logs.json_columns import A_METRIC, STEPS
from bayes_grpo.logs.keyindex import is_kind, normal, table_of_rows, with_evaluation_keys, without_nan
from bayes_grpo.logs.lines import names_reward
from bayes_grpo.logs.shapes import PLACES, TIMES, Record, below_heading, is_number, on_one_axis, series
from bayes_grpo.logs.table import RUN_KEYS, to_float

_LOOKED_AT = 20
_MOSTLY = 0.8
_COMES_AGAIN = 2
"""Rows for each text of a column that names metrics by nothing but its texts."""
_NAMES_METRIC = frozenset(("metric", "metric_name", "tag", "variable", "scalar", "measure"))
_NAMES = _NAMES_METRIC | {"name", "key", "label", "title", "series"}
"""Keys of the name of a metric; those of `_NAMES_METRIC` name nothing else."""
_VALUES = ("value", "val", "metric_value", "scalar_value")
_POINTS = ("data", "values", "points", "series", "history")


class Shaped(NamedTuple):
    """Records in the usual shape, and a note on the shape that they had."""

    rows: Iterable[Any]
    notes: tuple[str, ...] = ()


def usual_rows(records: Iterable[Any]) -> Shaped:
    """Records as they come, or the rows that records of another shape hold."""
    rest = iter(records)
    first = [*islice(rest, _LOOKED_AT)]
    every = chain(first, rest)
    for shape, words in _SHAPES:
        if (turn := shape(first)) is not None:
            return Shaped(turn(every), (words,))
    return Shaped(every)


type Turn = Callable[[Iterable[Any]], Iterable[Any]]
"""Makes rows of all records of a shape."""


class _Long(NamedTuple):
    """Keys of a long table: of the metric's name, of its value, and those that place a row."""

    name: str
    value: str
    places: tuple[str, ...]


def _long_keys(first: Sequence[Any]) -> _Long | None:
    """The keys of a table with one metric a row, of which the first rows are given; None where it is another."""
    rows = [row for row in first if isinstance(row, Mapping)]
    if not rows or len(rows) < _MOSTLY * len(first):
        return None
    keys = {key: normal(str(key)) for row in rows for key in row}
    enough = _MOSTLY * len(rows)
    texts = [key for key in keys if sum(_is_text(x.get(key)) for x in rows) >= enough]
    if names_reward(k for k in keys if k not in texts) or "loss" in keys.values() or PLACES.isdisjoint(keys.values()):
        return None  # metrics of their own
    name = next(
        (key for key in sorted(texts, key=lambda k: keys[k] not in _NAMES_METRIC) if _names_metrics(rows, key)), None
    )
    others = [k for k, plain in keys.items() if k not in texts and plain not in PLACES | RUN_KEYS | TIMES]
    values = [key for key, plain in keys.items() if plain in _VALUES] or [
        k for k in others if not A_METRIC.search(keys[k])
    ]
    if name is None or len(values) != 1:
        return None
    kept = tuple(key for key, plain in keys.items() if plain in PLACES | RUN_KEYS or is_kind(key))
    return _Long(name, values[0], tuple(key for key in kept if key != name))


def _names_metrics(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    """True if the texts under a key are names of metrics: by its name, by one of them, or by all that come again."""
    plain = normal(str(key))
    words = Counter(str(row.get(key)) for row in rows)
    if plain in _NAMES:
        return plain in _NAMES_METRIC or any(map(A_METRIC.search, words))
    again = 1 < len(words) <= len(rows) / _COMES_AGAIN
    return again and names_reward(words) and all(map(A_METRIC.search, words)) and not any(" " in x for x in words)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != "" and not is_number(value)


def _long(first: Sequence[Any]) -> Turn | None:
    """A table with one metric a row, its name beside its value, as TensorBoard's readers and pandas' melt write it."""
    keys = _long_keys(first)
    return None if keys is None else partial(_widened, keys=keys)


def _widened(rows: Iterable[Any], keys: _Long) -> list[Record]:
    """Rows with all metrics of one place; a metric that comes again begins another row.

    Where one metric follows after the other, each over all its steps, the rows are sorted by step.
    """
    begun: dict[tuple[str, ...], Record] = {}
    found: list[Record] = []
    last: dict[tuple[str, str], float] = {}
    rises = True
    step = next((key for key in keys.places if normal(key) in PLACES), "")
    runs = [key for key in keys.places if normal(key) in RUN_KEYS]
    order: dict[str, int] = {}
    for row in rows:
        name = row.get(keys.name) if isinstance(row, Mapping) else None
        if not isinstance(name, str) or keys.value not in row:
            continue
        place = tuple(str(row.get(key)) for key in keys.places)
        one = begun.get(place)
        if one is None or name in one:
            one = begun[place] = {key: row[key] for key in keys.places if row.get(key) is not None}
            found.append(one)
        one[name] = row[keys.value]
        at = to_float(row.get(step))
        of_run = (_run(row, runs), name)
        order.setdefault(of_run[0], len(order))
        rises = rises and at >= last.get(of_run, at)
        last[of_run] = at
    if rises:
        found.sort(key=lambda row: (order[_run(row, runs)], to_float(row.get(step))))
    return found


def _run(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    return "/".join(str(row.get(key)) for key in keys)


def parsed_columns(columns: dict[str, Any]) -> Parsed:
    """Rows out of whole columns of one length, also with one metric a row or JSON in their cells.

    An evaluation's rows get their own keys.
    """
    of_numbers = [name for name, values in columns.items() if isinstance(values, np.ndarray)]
    if len(of_numbers) == len(columns) or names_reward(of_numbers):
        return Parsed(with_evaluation_keys(columns))
    lists = [without_nan(v) if isinstance(v, np.ndarray) else v for v in columns.values()]
    shaped = usual_rows(dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True))
    table = table_of_rows(shaped.rows) if shaped.notes else with_evaluation_keys(columns)
    return Parsed(table, notes=shaped.notes)


def is_long(names: Iterable[str]) -> bool:
    """True if columns have the names of those of a table with one metric a row."""
    plain = {normal(name) for name in names}
    return not (plain.isdisjoint(_NAMES) or plain.isdisjoint(_VALUES) or plain.isdisjoint(PLACES))


def _curves(first: Sequence[Any]) -> Turn | None:
    """The curves of a chart: objects of a name and its points."""
    if not first or not all(isinstance(x, Mapping) and _curve(x) is not None for x in first):
        return None
    names = [_curve(x) for x in first]
    fits = len({name for name, _ in filter(None, names)}) == len(names)
    return (lambda records: on_one_axis(dict(filter(None, map(_curve, records))))) if fits else None


def _curve(item: Mapping[str, Any]) -> tuple[str, dict[float, Any]] | None:
    """The name and the points of a curve, which may be a part of the object or its own two lists."""
    name = next((v for k, v in item.items() if normal(str(k)) in _NAMES and isinstance(v, str)), None)
    if name is None:
        return None
    parts = [v for k, v in item.items() if normal(str(k)) in _POINTS]
    found = next(filter(None, map(series, (item, *parts))), None)
    return (name, found) if found else None


def _lists(first: Sequence[Any]) -> Turn | None:
    """Lists of values, the first of them the names of the columns."""
    named = bool(first) and below_heading(first) is not None and names_reward(first[0])
    return (lambda records: below_heading([*records]) or ()) if named else None


def _pairs(first: Sequence[Any]) -> Turn | None:
    """Pairs of a step and an object of its metrics."""
    fits = first and all(isinstance(x, list | tuple) and len(x) == 2 and is_number(x[0]) for x in first)
    if not fits or not all(isinstance(x[1], Mapping) and names_reward(x[1]) for x in first):
        return None
    return lambda records: ({"step": at, **row} for at, row in records)


def _of_tensorboard(first: Sequence[Any]) -> Turn | None:
    """Times, steps and values of one curve, whose name nothing says."""
    fits = bool(first) and all(isinstance(x, list) and len(x) == 3 for x in first) and series(first) is not None
    return (
        (lambda rows: (dict(zip(("wall_time", "step", "value"), row, strict=True)) for row in rows)) if fits else None
    )


def _inner(record: Any) -> str | None:
    """The key of the only list of records with rewards in a record that has none of its own."""
    if not isinstance(record, Mapping) or names_reward(k for k, v in record.items() if is_number(v)):
        return None
    lists = [
        key
        for key, value in record.items()
        if isinstance(value, list) and value and all(isinstance(x, Mapping) for x in value[:_LOOKED_AT])
    ]
    rewarded = [key for key in lists if names_reward(k for x in record[key][:_LOOKED_AT] for k in x)]
    return rewarded[0] if len(rewarded) == 1 else None


_SAMPLED = re.compile(
    r"completion|sample|rollout|trajector|response|generation|group|prompt|example|problem|question|episode",
    re.IGNORECASE,
)
"""A name of what is drawn for a step, and is no step itself."""


def _nested(first: Sequence[Any]) -> Turn | None:
    """Records that hold lists of records, as epochs hold their steps and steps the completions that they sampled."""
    keys = [_inner(record) for record in first]
    if not keys or keys[0] is None or any(key != keys[0] for key in keys):
        return None
    key = keys[0]
    inner = first[0][key][:_LOOKED_AT]
    sampled = _SAMPLED.search(key) is not None or any(isinstance(value, str) for x in inner for value in x.values())
    if not sampled:
        return partial(_flat, key=key)
    placed = all(any(normal(k) in STEPS and k != key for k in record) for record in first)
    return partial(_averaged, key=key) if placed else None  # else of a prompt, whose step nothing says


def _flat(records: Iterable[Any], key: str) -> list[Record]:
    """The inner records in their order; a counter of the outer ones is no step of theirs."""
    rows: list[Record] = []
    again = False
    for inner in _lists_under(records, key):
        again = again or (bool(rows) and _falls(rows[-1], inner[0]))
        rows += inner
    if again:  # the steps of each outer record begin at the first again
        return [{k: v for k, v in row.items() if normal(k) not in STEPS} for row in rows]
    return rows


def _averaged(records: Iterable[Any], key: str) -> Iterator[Record]:
    """A row for each outer record, with the means of the numbers below it, and all of its rewards."""
    for record in records:
        for inner in _lists_under((record,), key):
            columns = {k: [x.get(k) for x in inner] for k in inner[0]}
            known = {k: v for k, v in columns.items() if all(map(is_number, v))}
            rewards = [k for k in known if names_reward((k,))]
            means = {k: float(np.mean([*map(to_float, v)])) for k, v in known.items() if rewards != [k]}
            outer = {k: v for k, v in record.items() if k != key}
            yield {**means, **({"rewards": known[rewards[0]]} if len(rewards) == 1 else {}), **outer}


def _lists_under(records: Iterable[Any], key: str) -> Iterator[list[Record]]:
    """The records in the list under a key of each record, where there are any."""
    for record in records:
        inner = record.get(key) if isinstance(record, Mapping) else None
        if rows := [row for row in inner if isinstance(row, dict)] if isinstance(inner, list) else []:
            yield rows


def _falls(before: Record, row: Record) -> bool:
    return any(to_float(row.get(k)) <= to_float(v) for k, v in before.items() if normal(k) in STEPS)


def _in_text(first: Sequence[Any]) -> Turn | None:
    """Rows whose metrics are JSON within a text, as databases export them."""
    rows = [row for row in first if isinstance(row, Mapping)]
    if not rows or names_reward(key for row in rows for key, value in row.items() if not isinstance(value, str)):
        return None
    keys = [key for key, value in rows[0].items() if _object_in(value) is not None]
    if len(keys) != 1 or not all(names_reward(_object_in(row.get(keys[0])) or ()) for row in rows):
        return None
    return lambda records: (_opened(row, keys[0]) for row in records)


def _opened(row: Any, key: str) -> Any:
    return {**{k: v for k, v in row.items() if k != key}, **(_object_in(row.get(key)) or {})}


def _object_in(value: Any) -> Record | None:
    """The object that a text holds as JSON, None where it holds none."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        with suppress(ValueError, RecursionError):
            found = json.loads(value)
            return found if isinstance(found, dict) else None
    return None


def _listed(first: Sequence[Any]) -> Turn | None:
    """Rows whose metrics are a list of names and values."""
    rows = [row for row in first if isinstance(row, Mapping)]
    keys = [key for key, value in rows[0].items() if _named_values(value)] if rows else []
    if len(keys) != 1 or not all(names_reward(_named_values(row.get(keys[0]))) for row in rows):
        return None
    key = keys[0]
    return lambda records: ({k: v for k, v in row.items() if k != key} | _named_values(row.get(key)) for row in records)


def _named_values(value: Any) -> Record:
    """Name → value of a list of objects of these; nothing where it is another list."""
    items = value if isinstance(value, list) and all(isinstance(x, Mapping) for x in value) else []
    found = {}
    for item in items:
        names = [v for k, v in item.items() if normal(str(k)) in _NAMES and isinstance(v, str)]
        values = [v for k, v in item.items() if normal(str(k)) in _VALUES]
        if len(names) != 1 or len(values) != 1:
            return {}
        found[names[0]] = values[0]
    return found


_SHAPES: tuple[tuple[Callable[[Sequence[Any]], Turn | None], str], ...] = (
    (_long, "one metric a row, with its name: the metrics of a step are joined"),
    (_curves, "a curve a metric, joined on their steps"),
    (_lists, "lists of values below the names of their columns"),
    (_of_tensorboard, "a time, a step and a value each, as TensorBoard downloads a curve"),
    (_pairs, "a step and an object of its metrics in turn"),
    (_listed, "lists of names and values, read as the columns of their row"),
    (_in_text, "the metrics of a row are JSON within a text"),
    (_nested, "records within records: the inner ones are the rows"),
)
