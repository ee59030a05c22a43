"""Base of all results: a short text and a picture where they are shown, a dictionary for JSON, a table."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.notebook import notebook_html
from bayes_grpo.common.text import plain

if TYPE_CHECKING:
    import pandas as pd


def json_safe(value: Any) -> Any:
    """A copy of a value in JSON's types.

    Numbers that are not finite are None, NumPy's scalars and arrays Python's numbers and lists, members of an enum
    their values. Named tuples, such as intervals, and dataclasses are dictionaries of their fields; a dataclass with
    `to_dict` is what that returns.
    """
    if isinstance(value, Mapping):
        return {_key(k): json_safe(v) for k, v in value.items()}
    if hasattr(value, "_asdict"):
        return json_safe(value._asdict())
    if isinstance(value, list | tuple):
        return [json_safe(v) for v in value]
    if is_dataclass(value) and not isinstance(value, type):
        own = getattr(value, "to_dict", None)
        return json_safe(fields_of(value)) if own is None else own()
    if isinstance(value, np.ndarray):
        return json_safe(value.tolist())
    if isinstance(value, np.generic):
        return json_safe(value.item())
    if isinstance(value, Enum):
        return json_safe(value.value)
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value


def _key(key: Any) -> str:
    """A key; of a number, such as the share of a log's rows, no more digits than it takes to tell it."""
    return f"{key:g}" if isinstance(key, float) else str(key)


_LONGEST = 200
"""Characters of a sentence in a short text; of a value a tenth."""


class Displayed:
    """Base of what sessions and notebooks show: one line in place of all numbers, and in a notebook a document."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Keeps `dataclass` from writing a text of a hundred thousand numbers: it leaves alone what a class has."""
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            cls.__repr__ = Displayed.__repr__

    def __repr__(self) -> str:
        """Its class and sentence, on one line; without a sentence, its fields, shortened."""
        text = headline_of(self)
        if not text:
            short = reprlib.Repr(maxstring=_LONGEST // 5, maxother=_LONGEST // 5, maxlevel=2)
            text = ", ".join(f"{f.name}={short.repr(getattr(self, f.name))}" for f in fields(self))  # pyright: ignore[reportArgumentType]
        return f"<{type(self).__name__}: {plain(text, _LONGEST)}>"

    def _repr_html_(self) -> str:
        """Answer, table and figure for a notebook."""
        return notebook_html(self)


def headline_of(result: object) -> str:
    """The one sentence of a result; "" where it has none."""
    status = getattr(result, "status", None)
    for holder, name in ((status, "sentence"), (result, "sentence"), (result, "verdict")):
        text = getattr(holder, name, "")
        if isinstance(text, str) and text:
            return text
    return ""


class Result(Displayed):
    """Base of results, which are frozen dataclasses.

    Attributes:
        also_in_json: Properties that JSON has after the fields, such as the sentence.
        not_in_json: Fields that it leaves out, such as what only pictures need.
    """

    also_in_json: ClassVar[tuple[str, ...]] = ()
    not_in_json: ClassVar[tuple[str, ...]] = ()

    def contents(self) -> dict[str, Any]:
        """Fields in order, then properties, for JSON and tables; values as they are."""
        return fields_of(self, *self.not_in_json) | {name: getattr(self, name) for name in self.also_in_json}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary; numbers that are not finite become None."""
        return json_safe(self.contents())


def reward_words(signal: str) -> str:
    """The signal that was fitted, "reward" or "eval_reward", in words."""
    return "reward" if signal == "reward" else "evaluation reward"


@dataclass(frozen=True)
class About:
    """Which rows of which run a result is about; the signal is "reward" or "eval_reward".

    The source is where the run was read from; "" where a result does not keep it.
    """

    run: str
    signal: str
    rows: int
    first_step: float
    last_step: float
    source: str = ""

    @property
    def reward(self) -> str:
        """The signal in words."""
        return reward_words(self.signal)


@dataclass(frozen=True)
class LogSubject:
    """Which log a result is about, where it looks at all signals.

    Attributes:
        format: What the log was read as.
        log_hash: Hash of its bytes.
        rows: Number of training rows.
        evaluations: Number of evaluation rewards.
        first_step: First step of either.
        last_step: Last step of either.
        up_to_step: Step up to which the log was looked at, as if it were now; None for all of it.
    """

    name: str
    source: str
    format: str
    log_hash: str
    rows: int
    evaluations: int
    first_step: float
    last_step: float
    up_to_step: float | None
    interval_level: float


def frame_of(rows: Iterable[Any], index: str | list[str], columns: Iterable[str] = ()) -> pd.DataFrame:
    """A table of records, numbers as they are: NaN and infinity stay.

    Records have the same fields: mappings, dataclasses, or results (`Result.contents`). An `Interval` under ``name``
    becomes the columns ``name`` (its median), ``name_low`` and ``name_high``; the probability inside it stands in the
    table's ``attrs["interval_level"]``. The index is the field, or fields, that name a row; a table without rows has
    ``columns``.
    """
    import pandas as pd

    records, level = [], None
    for row in rows:
        record: dict[str, Any] = {}
        for name, value in _fields(row).items():
            if isinstance(value, Interval):
                record |= {name: value.median, f"{name}_low": value.low, f"{name}_high": value.high}
                level = value.level
            else:
                record[name] = value
        records.append(record)
    table = pd.DataFrame.from_records(records) if records else pd.DataFrame(columns=list(columns))
    if level is not None:
        table.attrs["interval_level"] = level
    return table.set_index(index)


def _fields(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    return row.contents() if isinstance(row, Result) else fields_of(row)


def fields_of(record: Any, *without: str) -> dict[str, Any]:
    """Fields of a dataclass by name, its intervals left whole."""
    return {k: getattr(record, k) for k in record.__dataclass_fields__ if k not in without}
