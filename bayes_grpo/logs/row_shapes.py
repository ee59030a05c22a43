"""Shapes of records that hold a part of a row each, or rows of several: long tables, charts, records in records.

The first records tell the shape, so that those of the usual one pass as they come.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from bayes_grpo.logs.formats import Parsed, parsed_rows
from bayes_grpo.logs.json_columns import A_METRIC, STEPS
from bayes_grpo.logs.keyindex import is_kind, normal, records_of_columns, table_of_rows, with_evaluation_keys
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


def _usual_rows(records: Iterable[Any]) -> tuple[Iterable[Any], tuple[str, ...]]:
    """Records as they come, or the rows that records of another shape hold, and a note on that shape."""
    rest = iter(records)
    first = [*islice(rest, _LOOKED_AT)]
    every = chain(first, rest)
    for shape, words in _SHAPES:
        if (turn := shape(first)) is not None:
            return turn(every), (words,)
    return every, ()


def parsed_records(records: Iterable[Any], **more: Any) -> Parsed:
    """The rows of records of any shape; ``more`` are attributes of `Parsed`."""
    rows, notes = _usual_rows(records)
    return parsed_rows(rows, **more).noted(*notes)


type Turn = Callable[[Iterable[Any]], Iterable[Any]]
"""Makes rows of all records of a shape."""


def _long(first: Sequence[Any]) -> Turn | None:
    """A table with one metric a row, its name beside its value, as TensorBoard's readers and pandas' melt write it."""
    rows = [row for row in first if isinstance(row, Mapping)]
    if not rows or len(rows) < _MOSTLY * len(first):
        return None
    keys = {key: normal(str(key)) for row in rows for key in row}
    enough = _MOSTLY * len(rows)
    texts = [key for key in keys if sum(_is_text(x.get(key)) for x in rows) >= enough]
    if names_reward(k for k in keys if k not in texts) or "loss" in keys.values() or PLACES.isdisjoint(keys.values()):
        return None  # metrics of their own
    texts.sort(key=lambda k: keys[k] not in _NAMES_METRIC)
    name = next((key for key in texts if _names_metrics(rows, key)), None)
    others = [k for k, plain in keys.items() if k not in texts and plain not in PLACES | RUN_KEYS | TIMES]
    values = [key for key, plain in keys.items() if plain in _VALUES]
    values = values or [key for key in others if not A_METRIC.search(keys[key])]
    if name is None or len(values) != 1:
        return None
    places = [k for k, plain in keys.items() if k != name and (plain in PLACES | RUN_KEYS or is_kind(k))]
    return partial(_widened, name_key=name, value_key=values[0], places=places)


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


def _widened(rows: Iterable[Any], name_key: str, value_key: str, places: Sequence[str]) -> list[Record]:
    """Rows with all metrics of one place; a metric that comes again begins another row.

    Where one metric follows after the other, each over all its steps, the rows are sorted by step.
    """
    begun: dict[tuple[str, ...], Record] = {}
    found: list[Record] = []
    last: dict[tuple[str, str], float] = {}
    rises = True
    step = next((key for key in places if normal(key) in PLACES), "")
    order: dict[str, int] = {}

    def run_of(row: Mapping[str, Any]) -> str:
        return "/".join(str(row.get(key)) for key in places if normal(key) in RUN_KEYS)

    for row in rows:
        name = row.get(name_key) if isinstance(row, Mapping) else None
        if not isinstance(name, str) or value_key not in row:
            continue
        place = tuple(str(row.get(key)) for key in places)
        one = begun.get(place)
        if one is None or name in one:
            one = begun[place] = {key: row[key] for key in places if row.get(key) is not None}
            found.append(one)
        one[name] = row[value_key]
        at = to_float(row.get(step))
        run = run_of(row)
        order.setdefault(run, len(order))
        rises = rises and at >= last.get((run, name), at)
        last[run, name] = at
    if rises:
        found.sort(key=lambda row: (order[run_of(row)], to_float(row.get(step))))
    return found


def parsed_columns(columns: dict[str, Any]) -> Parsed:
    """Rows out of whole columns of one length, also with one metric a row or JSON in their cells.

    An evaluation's rows get their own keys.
    """
    of_numbers = [name for name, values in columns.items() if isinstance(values, np.ndarray)]
    if len(of_numbers) == len(columns) or names_reward(of_numbers):
        return Parsed(with_evaluation_keys(columns))
    rows, notes = _usual_rows(records_of_columns(columns))
    return Parsed(table_of_rows(rows) if notes else with_evaluation_keys(columns), notes=notes)


def is_long(names: Iterable[str]) -> bool:
    """True if columns have the names of those of a table with one metric a row."""
    plain = {normal(name) for name in names}
    return not (plain.isdisjoint(_NAMES) or plain.isdisjoint(_VALUES) or plain.isdisjoint(PLACES))


def _curves(first: Sequence[Any]) -> Turn | None:
    """The curves of a chart: objects of a name and its points."""
    names = {curve[0] for x in first if (curve := _curve(x)) is not None}
    fits = 0 < len(first) == len(names)
    return (lambda records: on_one_axis(dict(filter(None, map(_curve, records))))) if fits else None


def _curve(item: Any) -> tuple[str, dict[float, Any]] | None:
    """The name and the points of a curve, which may be a part of the object or its own two lists."""
    if not isinstance(item, Mapping):
        return None
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


def _of_tensorboard(first: Sequence[Any]) -> Turn | None:
    """Times, steps and values of one curve, whose name nothing says."""
    if not first or not all(isinstance(x, list) and len(x) == 3 for x in first) or series(first) is None:
        return None
    return lambda rows: (dict(zip(("wall_time", "step", "value"), row, strict=True)) for row in rows)


def _inner(record: Any) -> str | None:
    """The key of the only list of records with rewards in a record that has none of its own."""
    if not isinstance(record, Mapping) or names_reward(k for k, v in record.items() if is_number(v)):
        return None
    lists = {key: value[:_LOOKED_AT] for key, value in record.items() if isinstance(value, list)}
    lists = {key: rows for key, rows in lists.items() if all(isinstance(x, Mapping) for x in rows)}
    rewarded = [key for key, rows in lists.items() if names_reward(k for x in rows for k in x)]
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
    key, *others = [key for key, value in rows[0].items() if _object_in(value)] or [""]
    if others or not all(names_reward(_object_in(row.get(key))) for row in rows):
        return None
    return lambda records: ({k: v for k, v in row.items() if k != key} | _object_in(row.get(key)) for row in records)


def _object_in(value: Any) -> Record:
    """The object that a text holds as JSON, empty where it holds none."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        with suppress(ValueError, RecursionError):
            return json.loads(value)  # what begins so is an object
    return {}


_SHAPES: tuple[tuple[Callable[[Sequence[Any]], Turn | None], str], ...] = (
    (_long, "one metric a row, with its name: the metrics of a step are joined"),
    (_curves, "a curve a metric, joined on their steps"),
    (_lists, "lists of values below the names of their columns"),
    (_of_tensorboard, "a time, a step and a value each, as TensorBoard downloads a curve"),
    (_in_text, "the metrics of a row are JSON within a text"),
    (_nested, "records within records: the inner ones are the rows"),
)
