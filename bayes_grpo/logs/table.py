"""Columns of numbers under the keys that the trainer wrote: the shape every reader produces.

Missing values are NaN. A value that was logged and is no number (NaN, an infinity) is kept as +inf inside, so that
`Table.column` gives NaN for both and `Table.broken` tells them apart. Nothing is merged or dropped here.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import LogReadError

MAX_KEYS = 5_000
"""Distinct keys a log may have. Real trainers write up to about a thousand; more is not a metrics log."""

_CHUNK_ROWS = 65_536
_CHUNK_CELLS = 2_000_000
_SPARSE = 8
"""A chunk keeps the places of its numbers where fewer than one cell in so many has one."""
_MAX_FLATTEN_DEPTH = 4
_MAX_NUMBER_LENGTH = 64
_WRAPPED = re.compile(r"^(?:[A-Za-z_][\w.]*\()+\s*([-+\w.]+)\s*(?:,[^()]*)?\)+$")
"""A number inside constructor calls, e.g. ``np.float64(0.5)`` or ``tensor(0.5, device='cuda:0')``."""


RUN_KEYS = frozenset(
    ("run", "run_id", "run_name", "experiment", "experiment_id", "experiment_name", "exp", "exp_name", "trial",
     "trial_id", "seed", "variant", "config_name", "job_id")
)  # fmt: skip
"""Names of columns that tell runs apart, in lower case."""
GROUP_KEYS = frozenset(
    ("group", "group_id", "group_idx", "prompt_id", "prompt_idx", "prompt_index", "task_id", "question_id",
     "problem_id", "example_id", "uid")
)  # fmt: skip
"""Names of columns that tell the groups of completions apart."""
_WORDS = RUN_KEYS | GROUP_KEYS
"""Keys whose text is kept."""


def to_float(value: Any) -> float:
    """Reads one logged value as a finite float, NaN where it is not a number.

    Percentages become fractions ("62.5%" is 0.625); infinities become NaN.
    """
    number = _cell(value)
    return number if math.isfinite(number) else math.nan


def _cell(value: Any) -> float:
    """One value: finite, NaN where none was logged, +inf where one was logged that is no number."""
    try:
        if isinstance(value, str):
            number = _text_to_float(value)
        elif isinstance(value, int | float | np.number):
            number = float(value)
        else:
            return math.nan
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf
    return number if math.isfinite(number) else math.inf


def _text_to_float(text: str) -> float:
    text = text.strip()
    if not text or len(text) > _MAX_NUMBER_LENGTH:
        raise ValueError
    wrapped = _WRAPPED.match(text)
    if wrapped:
        text = wrapped.group(1)
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def to_floats(values: list[Any]) -> np.ndarray:
    """Every value as a cell of a column, shape (n,): NaN where missing, +inf where logged as no number."""
    try:
        array = np.array(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        array = None
    if array is None or array.ndim != 1:
        return np.fromiter((_cell(v) for v in values), dtype=np.float64, count=len(values))
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        array[bad] = [math.nan if values[i] is None else math.inf for i in bad]
    return array


def flatten(row: Mapping[Any, Any]) -> dict[str, Any]:
    """One level of keys out of nested mappings, joined by "/"; the first spelling of a key wins."""
    flat: dict[str, Any] = {}
    _flatten_into(flat, row, "", _MAX_FLATTEN_DEPTH)
    return flat


def _flatten_into(flat: dict[str, Any], row: Mapping[Any, Any], prefix: str, depth: int) -> None:
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if depth:
                _flatten_into(flat, value, f"{name}/", depth - 1)
        else:
            flat.setdefault(name, value)


class _Chunk(NamedTuple):
    """Some values of a column.

    Attributes:
        start: Row from which ``rows`` are counted.
        rows: Rows of the values, shape (n,); None where they follow each other from ``start`` on.
        values: The values, shape (n,).
    """

    start: int
    rows: np.ndarray | None
    values: np.ndarray

    @property
    def where(self) -> slice | np.ndarray:
        """Rows of the values in their table."""
        return slice(self.start, self.start + len(self.values)) if self.rows is None else self.rows + self.start


class Table:
    """Rows of a log as float columns under the raw keys. Absent cells are NaN.

    Attributes:
        n: Number of rows.
        keys: Raw keys in order of first appearance.
        labels: Key of `RUN_KEYS` or `GROUP_KEYS` → its text in each row, "" where a row has none.
    """

    def __init__(
        self, n: int, chunks: Mapping[str, list[_Chunk]], labels: Mapping[str, list[str]] | None = None
    ) -> None:
        self.n = n
        self._chunks = chunks
        self.labels = labels or {}
        self.keys: tuple[str, ...] = tuple(chunks)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Table:
        """A table of whole columns of one length; each is read with `to_floats`."""
        arrays = {str(k): _as_floats(v) for k, v in columns.items()}
        n = max((len(a) for a in arrays.values()), default=0)
        words = {str(k): _words(v) for k, v in columns.items() if is_label(str(k)) and isinstance(v, list)}
        return cls(n, {k: [_Chunk(0, None, a)] for k, a in arrays.items()}, {k: w for k, w in words.items() if any(w)})

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[Any, Any]]) -> Table:
        """A table of records in file order; nested mappings are flattened with "/".

        Raises:
            LogReadError: There are more than `MAX_KEYS` distinct keys.
        """
        builder = TableBuilder()
        for row in rows:
            builder.add(row)
        return builder.build()

    def __contains__(self, key: object) -> bool:
        return key in self._chunks

    def column(self, key: str) -> np.ndarray:
        """Values of a key, shape (n,), NaN where a row does not have it."""
        values = self._cells(key)
        values[np.isinf(values)] = np.nan
        return values

    def _cells(self, key: str) -> np.ndarray:
        values = np.full(self.n, np.nan)
        for chunk in self._chunks.get(key, ()):
            values[chunk.where] = chunk.values
        return values

    def rows(self, index: np.ndarray) -> Table:
        """Some rows, shape (m,), of which keys without a value are left out."""
        columns = {key: values for key in self.keys if not np.isnan(values := self._cells(key)[index]).all()}
        labels = {key: [words[i] for i in index] for key, words in self.labels.items()}
        return Table(len(index), {key: [_Chunk(0, None, values)] for key, values in columns.items()}, labels)

    def broken(self, key: str) -> np.ndarray:
        """Rows in which a value was logged under a key and is no number, shape (n,)."""
        rows = np.zeros(self.n, dtype=bool)
        for chunk in self._chunks.get(key, ()):
            rows[chunk.where] = np.isinf(chunk.values)
        return rows

    def has_numbers(self, key: str) -> bool:
        """Whether any row has a number under ``key``."""
        return any(np.isfinite(chunk.values).any() for chunk in self._chunks.get(key, ()))

    def digest(self) -> str:
        """SHA-256 of keys and values, hexadecimal: what tells rows apart that come from no file."""
        found = hashlib.sha256()
        for key in self.keys:
            found.update(key.encode("utf-8", "replace") + b"\0")
            found.update(self.column(key).tobytes())
        return found.hexdigest()

    def renamed(self, names: Mapping[str, str]) -> Table:
        """The columns named in ``names`` under their new names; the others are left out."""
        return Table(self.n, {new: self._chunks[old] for old, new in names.items() if old in self._chunks})

    def appended(self, other: Table) -> Table:
        """This table's rows followed by those of ``other``."""
        chunks = {k: list(v) for k, v in self._chunks.items()}
        for key, parts in other._chunks.items():
            chunks.setdefault(key, []).extend(part._replace(start=part.start + self.n) for part in parts)
        labels = {
            k: [*self.labels.get(k, [""] * self.n), *other.labels.get(k, [""] * other.n)]
            for k in {**self.labels, **other.labels}
        }
        return Table(self.n + other.n, chunks, labels)


class TableBuilder:
    """Collects records and turns them into columns in chunks, so that memory stays near the numbers'.

    A key that few records have takes no room in the others: a file of a megabyte cannot ask for a gigabyte.
    """

    def __init__(self) -> None:
        self._rows: list[Mapping[Any, Any]] = []
        self._seen: dict[Any, None] = {}
        self._chunks: dict[str, list[_Chunk]] = {}
        self._labels: dict[str, list[str]] = {}
        self._n = self._cells = 0

    def add(self, row: Mapping[Any, Any]) -> None:
        """Appends one record."""
        self._rows.append(row)
        self._seen.update(row)
        self._cells += len(row)
        if len(self._rows) >= _CHUNK_ROWS or self._cells >= _CHUNK_CELLS:
            self._flush()

    def build(self) -> Table:
        """The table of everything added so far."""
        self._flush()
        return Table(self._n, self._chunks, {k: w for k, w in self._labels.items() if any(w)})

    def _flush(self) -> None:
        rows: list[Any] = self._rows
        keys = list(self._seen)
        if any(isinstance(value, dict) for row in rows for value in row.values()):
            rows = [flatten(row) for row in rows]
            keys = list(dict.fromkeys(key for row in rows for key in row))
        distinct = len(self._chunks.keys() | set(map(str, keys)))
        if distinct > MAX_KEYS:
            raise LogReadError(
                f"expected a metrics log with at most {MAX_KEYS} distinct keys, found {distinct}; "
                f"pass a file with one record of metrics a row"
            )
        for key, chunk in self._columns(rows, keys):
            self._chunks.setdefault(str(key), []).append(chunk)
        for key in {k for k in keys if is_label(str(k))} | set(self._labels):
            words = self._labels.setdefault(key, [""] * self._n)
            words += _words([row.get(key) for row in rows])
        self._n += len(rows)
        self._rows, self._seen, self._cells = [], {}, 0

    def _columns(self, rows: list[Any], keys: list[Any]) -> Iterator[tuple[Any, _Chunk]]:
        if sum(map(len, rows)) * _SPARSE >= len(rows) * len(keys):
            for key in keys:
                yield key, _Chunk(self._n, None, to_floats([row.get(key) for row in rows]))
            return
        places: dict[Any, list[int]] = {key: [] for key in keys}
        found: dict[Any, list[Any]] = {key: [] for key in keys}
        for place, row in enumerate(rows):
            for key, value in row.items():
                places[key].append(place)
                found[key].append(value)
        for key in keys:
            yield key, _Chunk(self._n, np.array(places.pop(key), dtype=np.int64), to_floats(found.pop(key)))


def is_label(key: str) -> bool:
    """Whether the text under a key is kept."""
    return key.strip().lower() in _WORDS


def _words(values: list[Any]) -> list[str]:
    return [x if isinstance(x, str) else "" for x in values]


def _as_floats(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        array = values.astype(np.float64)
        array[np.isinf(array)] = np.inf
        return array
    return to_floats(list(values))
