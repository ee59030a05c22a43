"""Shapes in which scripts keep the rows of a training as JSON, turned to records: objects of objects, of series.

A function of a shape gives None of another one. What has two readings has none here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from bayes_grpo.common.text import clean
from bayes_grpo.logs.json_columns import STEPS, number_lists
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import names_reward
from bayes_grpo.logs.reward_parts import OF_EVALUATION
from bayes_grpo.logs.table import COMPLETION_TEXTS, flatten, to_float

type Record = dict[str, Any]
type Series = dict[float, Any]
"""Step → value."""

PLACES = STEPS | {"epoch", "episode", "round"}
"""Names of what places a row among others."""
TIMES = frozenset(("wall_time", "walltime", "time", "timestamp", "timestamps", "ts", "relative_time", "index"))
"""Names of what says when a value was logged."""
_LOOKED_AT = 20
_FEWEST = 2
_MAX_DEPTH = 4
_STEP_KEY = re.compile(r"(?:(?P<word>[a-z]{1,20}(?:_step)?)[\s_:#-]{0,3})?(?P<step>\d{1,12}(?:\.0)?)", re.IGNORECASE)
_COUNTERS = frozenset(("epoch", "episode", "round"))
_STEP_WORDS = _COUNTERS.union((
    "step", "global_step", "train_step", "iteration", "iter", "it", "update", "checkpoint", "ckpt",
))  # fmt: skip
_X = PLACES | {"x", "i", "t", "xs", "epochs", "iterations", "labels"}
_Y = frozenset(("y", "value", "values", "val", "data", "ys"))
_EPOCH_SECONDS = 1e9
"""Seconds since 1970 from which on a number is a time."""
_HEADINGS = ("columns", "header", "headers", "column_names", "fields", "keys")
_BODIES = ("data", "rows", "values", "records")


def is_number(value: Any) -> bool:
    """True if a value is a finite number, also as text; no truth value."""
    return not isinstance(value, bool) and math.isfinite(to_float(value))


def step_in_key(key: Any) -> tuple[str, float] | None:
    """Counter of a key such as "10", "step_10" and "epoch 1", and its number; None where it is another key."""
    found = _STEP_KEY.fullmatch(str(key).strip())
    word = (found["word"] or "step").lower() if found else ""
    if found is None or word not in _STEP_WORDS:
        return None
    return word if word in _COUNTERS else "step", float(found["step"])


def series(value: Any) -> Series | None:
    """The values of one metric by their steps: pairs, an object keyed by steps, points with x and y, two lists."""
    if isinstance(value, Mapping):
        return _by_key(value) or _of_two_lists(value)
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) < _FEWEST:
        return None
    return _of_pairs(value) if isinstance(value[0], list | tuple) else _of_points(value)


def _rising(steps: Sequence[Any], values: Iterable[Any]) -> Series | None:
    """Values by steps that rise; None where they do not, or no value is a number."""
    places = [to_float(x) for x in steps]
    found = dict(zip(places, values, strict=False))
    fits = all(b > a for a, b in pairwise(places)) and math.isfinite(sum(places))
    return found if fits and any(map(is_number, found.values())) else None


def _by_key(value: Mapping[Any, Any]) -> Series | None:
    if len(value) < _FEWEST or not all(x is None or isinstance(x, int | float | str) for x in value.values()):
        return None
    places = [step_in_key(key) for key in value]
    found = sorted((at[1], x) for at, x in zip(places, value.values(), strict=True) if at is not None and x is not None)
    return _rising([at for at, _ in found], [x for _, x in found]) if None not in places and found else None


def _of_two_lists(value: Mapping[Any, Any]) -> Series | None:
    lists = {normal(str(k)): v for k, v in value.items() if isinstance(v, list)}
    steps = next((v for k, v in lists.items() if k in _X), [])
    values = next((v for k, v in lists.items() if k in _Y), [])
    return _rising(steps, values) if len(steps) == len(values) >= _FEWEST else None


def _of_pairs(value: Sequence[Any]) -> Series | None:
    """Pairs of a step and a value, or a time, a step and a value, as TensorBoard downloads a curve."""
    width = len(value[0])
    if width not in (2, 3) or not all(isinstance(x, list | tuple) and len(x) == width for x in value):
        return None
    timed = width == 3 and all(to_float(x[0]) >= _EPOCH_SECONDS for x in value)
    steps = [x[-2] for x in value]
    whole = all(is_number(x) and to_float(x) % 1 == 0 for x in steps)
    if not whole or (width == 3 and not timed) or {*map(to_float, steps)} <= {0.0, 1.0}:
        return None  # rewards of a group of completions
    return _rising(steps, [x[-1] for x in value])


def _of_points(value: Sequence[Any]) -> Series | None:
    """Objects of nothing but a step and a value, and of when it was logged."""
    if not all(isinstance(x, Mapping) and x.keys() == value[0].keys() for x in value):
        return None
    steps = [key for key in value[0] if normal(str(key)) in _X]
    values = [key for key in value[0] if normal(str(key)) in _Y]
    others = [key for key in value[0] if normal(str(key)) not in _X | _Y | TIMES]
    if len(steps) != 1 or len(values) != 1 or others:
        return None
    return _rising([x[steps[0]] for x in value], [x[values[0]] for x in value])


def on_one_axis(columns: Mapping[str, Series]) -> list[Record]:
    """Series of metrics as a record a step; the step is that of the series that is named so, where one is."""
    bare = _without_common_place([*columns])
    placed = any(normal(name) in STEPS for name in bare)
    rows: dict[float, Record] = {}
    for name, values in zip(bare, columns.values(), strict=True):
        for step, value in values.items():
            rows.setdefault(step, {} if placed else {"step": step})[name] = value
    return [rows[step] for step in sorted(rows)]


def _without_common_place(names: Sequence[str]) -> list[str]:
    """Names without the folders that all of them begin with, but for those that say of what they are."""
    parts = [name.split("/") for name in names]
    n = min(map(len, parts), default=1) - 1
    shared = next((i for i in range(n) if len({x[i] for x in parts}) > 1), n) if len(parts) > 1 else 0
    return [*names] if any(map(OF_EVALUATION.search, names)) else ["/".join(x[shared:]) for x in parts]


def _of_objects_by_step(document: Mapping[Any, Any]) -> list[Record] | None:
    """Objects of metrics under keys that are steps, as pandas' orient="index" writes them.

    Objects with the text of a completion are numbered, and their numbers are no steps.
    """
    objects = {key: value for key, value in document.items() if isinstance(value, Mapping) and key not in _ASIDE}
    found = [(step_in_key(key), value) for key, value in objects.items()]
    if len(found) < _FEWEST or any(at is None for at, _ in found):
        return None
    if not any(names_reward([k for k, x in flatten(value).items() if is_number(x)]) for _, value in found[:_LOOKED_AT]):
        return None
    if not _COMPLETIONS.isdisjoint(str(key).lower() for key in found[0][1]):
        return [{**value} for _, value in found]
    placed = sorted(((at[0], at[1], value) for at, value in found if at is not None), key=lambda x: x[1])
    return [
        {**value} if any(normal(str(key)) in STEPS for key in value) else {word: step, **value}
        for word, step, value in placed
    ]


def _of_series(document: Mapping[Any, Any]) -> list[Record] | None:
    """Series of metrics under their names, as pandas' orient="columns" writes them."""
    if not names_reward(map(str, document)):
        return None
    columns = {str(name): found for name, value in document.items() if (found := series(value)) is not None}
    if not names_reward(columns) or number_lists({**document}):
        return None
    return on_one_axis(columns)


def _of_heading(document: Mapping[Any, Any]) -> list[Record] | None:
    """Names of columns beside lists of their values, as pandas' orient="split" writes them."""
    plain = {str(key).lower(): value for key, value in document.items() if isinstance(value, list)}
    names = next((plain[key] for key in _HEADINGS if key in plain), None)
    rows = next((plain[key] for key in _BODIES if key in plain), [])
    return below_heading([names, *rows])


def below_heading(rows: Sequence[Any]) -> list[Record] | None:
    """Lists of values, the first of them the names of the columns."""
    if len(rows) < _FEWEST or not all(isinstance(row, list) and row and len(row) == len(rows[0]) for row in rows):
        return None
    names = rows[0]
    named = all(isinstance(x, str) and not is_number(x) for x in names)
    return [dict(zip(names, row, strict=True)) for row in rows[1:]] if named else None


def _of_completions(document: Mapping[Any, Any]) -> list[Record] | None:
    """Lists of the rewards of a step's completions, a list a step, beside lists of numbers a step."""
    found = [k for k, v in document.items() if _is_list_of_lists(v) and names_reward((str(k),))]
    if len(found) != 1:
        return None
    groups = document[found[0]]
    lists = {str(k): v for k, v in document.items() if isinstance(v, list) and len(v) == len(groups) and k != found[0]}
    columns = {k: v for k, v in lists.items() if not any(isinstance(x, list | Mapping) for x in v)}
    columns["rewards"] = groups
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _is_list_of_lists(value: Any) -> bool:
    """True if a value is a list of lists of numbers, at least one of them of several."""
    if not isinstance(value, list) or not value or not all(isinstance(x, list) and x for x in value):
        return False
    return max(map(len, value)) > 1 and all(is_number(x) for group in value for x in group)


_SHAPES = (
    (_of_objects_by_step, "an object a step, whose key is the step"),
    (_of_heading, "lists of values below the names of their columns"),
    (_of_series, "a series a metric, joined on their steps"),
    (_of_completions, "a list of the rewards of all completions a step"),
)


_ASIDE = frozenset(("final", "best", "last", "summary", "config", "args", "settings", "meta", "metadata", "hparams"))
"""Names of objects beside those that are keyed by steps."""
_NOT_STEPS = re.compile(r"seed|run|rank|gpu|worker|trial|fold|prompt|group|sample|question|task|layer|env|agent|config")
"""A name of an object whose numbered objects are something else than steps."""
_COMPLETIONS = COMPLETION_TEXTS | {"prompt", "question", "answer"}


def in_usual_shape(value: Any, path: str = "", depth: int = _MAX_DEPTH) -> tuple[Any, tuple[str, ...]]:
    """A document with every object of an unusual shape in it as a list of records, and notes on these."""
    if not isinstance(value, Mapping) or _NOT_STEPS.search(path.rpartition(".")[2].lower()):
        return value, ()
    for shape, words in _SHAPES:
        if rows := shape(value):
            return rows, (f"{clean(path) or 'the document'} has {words}",)
    notes: list[str] = []
    usual = {**value}
    for key, part in value.items() if depth > 1 else ():
        if isinstance(part, Mapping):
            usual[key], more = in_usual_shape(part, f"{path}.{key}".lstrip("."), depth - 1)
            notes += more
    return usual, tuple(notes)
