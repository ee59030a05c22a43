"""Columns of numbers under the keys that the trainer wrote: the shape every reader produces.

Missing values are NaN. A value that was logged and is no number (NaN, an infinity) is kept as +inf inside, so that
`Table.column` gives NaN for both and `Table.broken` distinguishes them. Nothing is merged or dropped here.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import LogReadError

MAX_KEYS = 5_000
"""Distinct keys a log may have. Real trainers write up to about a thousand; more is not a metrics log."""
_WAITING = 1_000_000
"""Values that are collected before they are put into arrays."""
_MAX_FLATTEN_DEPTH = 4
_MAX_NUMBER_LENGTH = 64
_BEGINS_NUMBER = frozenset("0123456789+-.")
_WRAPPED = re.compile(r"^(?:[A-Za-z_][\w.]*\()+\s*([-+\w.]+)\s*(?:,[^()]*)?\)+$")
"""A number inside constructor calls, e.g. ``np.float64(0.5)`` or ``tensor(0.5, device='cuda:0')``."""
RUN_KEYS = frozenset(
    ("run", "run_id", "run_name", "experiment", "experiment_id", "experiment_name", "exp", "exp_name", "trial",
     "trial_id", "seed", "variant", "config_name", "job_id")
)  # fmt: skip
"""Names of columns that name runs, in lower case."""
GROUP_KEYS = frozenset(
    ("group", "group_id", "group_idx", "prompt_id", "prompt_idx", "prompt_index", "task_id", "question_id",
     "problem_id", "example_id", "uid")
)  # fmt: skip
"""Names of columns that name groups of completions."""
COMPLETION_TEXTS = frozenset(("completion", "response", "output", "generation", "completion_text", "response_text"))
"""Names of columns that hold the text of a completion."""


def to_float(value: Any) -> float:
    """Reads one logged value as a finite float, NaN where it is not a number.

    Percentages become fractions ("62.5%" is 0.625), a typeset minus and "about" are read; infinities become NaN.
    """
    number = _cell(value)
    return number if math.isfinite(number) else math.nan


def _cell(value: Any) -> float:
    """One value: finite, NaN where none was logged, +inf where one was logged that is no number."""
    try:
        if isinstance(value, str):
            text = value.strip()
            if len(text) > _MAX_NUMBER_LENGTH:
                return math.nan
            if text.isascii() and " " not in text and text[-1:].isdigit() and text[0] in _BEGINS_NUMBER:
                number = float(text)  # nearly all, at a third of the cost
                return number if math.isfinite(number) else math.inf
            text = wrapped[1] if (wrapped := _WRAPPED.match(text)) else text.lstrip("~≈").replace("\u2212", "-")
            text = text.partition(" (")[0]
            number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        elif isinstance(value, int | float | np.number):
            number = float(value)
        else:
            return math.nan
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf
    return number if math.isfinite(number) else math.inf


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


def leaves(row: Mapping[Any, Any], depth: int, items: int = 0, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys joined by "/" and values out of nested mappings, and out of the first items of lists, by their numbers."""
    for key, value in row.items():
        if items and isinstance(value, list | tuple):
            value = dict(enumerate(value[:items]))
        if not isinstance(value, Mapping):
            yield f"{prefix}{key}", value
        elif depth:
            yield from leaves(value, depth - 1, items, f"{prefix}{key}/")


def flatten(row: Mapping[Any, Any]) -> dict[str, Any]:
    """One level of keys out of nested mappings; the first spelling of a key wins."""
    flat: dict[str, Any] = {}
    for key, value in leaves(row, _MAX_FLATTEN_DEPTH):
        flat.setdefault(key, value)
    return flat


class _Cells(NamedTuple):
    """Some values of a column: their rows, shape (m,), and the values, shape (m,)."""

    rows: np.ndarray
    values: np.ndarray


class Table:
    """Rows of a log as float columns under the raw keys. Absent cells are NaN and take no room.

    Attributes:
        n: Number of rows.
        keys: Raw keys in order of first appearance.
        labels: Key of `RUN_KEYS` or `GROUP_KEYS` → its text in each row, "" where a row has none.
    """

    def __init__(
        self, n: int, cells: Mapping[str, list[_Cells]], labels: Mapping[str, list[str]] | None = None
    ) -> None:
        self.n = n
        self._cells = cells
        self.labels = {key: words for key, words in (labels or {}).items() if any(words)}
        self.keys = tuple(cells)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Table:
        """A table of whole columns of one length; each is read with `to_floats`."""
        plain = {k: isinstance(v, np.ndarray) and v.dtype.kind in "fiub" for k, v in columns.items()}
        arrays = {str(k): v.astype(np.float64) if plain[k] else to_floats(list(v)) for k, v in columns.items()}
        for array in arrays.values():
            array[np.isinf(array)] = np.inf
        n = max((len(a) for a in arrays.values()), default=0)
        lists = {str(k): v for k, v in columns.items() if _is_label(k) and isinstance(v, list)}
        labels = {k: [x if isinstance(x, str) else "" for x in v] for k, v in lists.items()}
        return cls(n, {k: [_Cells(np.arange(len(a)), a)] for k, a in arrays.items()}, labels)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[Any, Any]]) -> Table:
        """A table of records in file order; nested mappings are flattened with "/"."""
        cells: dict[str, list[_Cells]] = {}
        words: dict[str, dict[int, str]] = {}
        waiting: dict[Any, tuple[list[int], list[Any]]] = {}  # numbers as Python keeps them take six times the room
        n = waiting_cells = 0
        for row in rows:
            flat = flatten(row) if any(type(value) is dict for value in row.values()) else row
            for key, value in flat.items():
                column = waiting.get(key)
                if column is None:
                    column = waiting[key] = ([], [])
                    cells.setdefault(str(key), [])
                column[0].append(n)
                column[1].append(value)
            n += 1
            waiting_cells += len(flat)
            if len(cells) > MAX_KEYS:
                raise LogReadError(
                    f"expected a metrics log with at most {MAX_KEYS} distinct keys, found more in {n} rows; "
                    f"pass a file with one record of metrics a row"
                )
            if waiting_cells >= _WAITING:
                _pack(waiting, cells, words)
                waiting_cells = 0
        _pack(waiting, cells, words)
        return cls(n, cells, {key: [found.get(i, "") for i in range(n)] for key, found in words.items()})

    def __contains__(self, key: object) -> bool:
        return key in self._cells

    def column(self, key: str) -> np.ndarray:
        """Values of a key, shape (n,), NaN where a row does not have it."""
        values = self._all(key)
        values[np.isinf(values)] = np.nan
        return values

    def broken(self, key: str) -> np.ndarray:
        """Rows in which a value was logged under a key and is no number, shape (n,)."""
        return np.isinf(self._all(key))

    def _all(self, key: str) -> np.ndarray:
        values = np.full(self.n, np.nan)
        for cells in self._cells.get(key, ()):
            values[cells.rows] = cells.values
        return values

    def has_numbers(self, key: str) -> bool:
        """True if any row has a number under ``key``."""
        return any(np.isfinite(cells.values).any() for cells in self._cells.get(key, ()))

    def rows(self, index: np.ndarray) -> Table:
        """Some rows, shape (m,), of which keys without a value are left out."""
        cells = {key: [_Cells(np.arange(len(index)), self._all(key)[index])] for key in self.keys}
        labels = {key: [words[i] for i in index] for key, words in self.labels.items()}
        return Table(len(index), {k: x for k, x in cells.items() if not np.isnan(x[0].values).all()}, labels)

    def renamed(self, keys: list[str]) -> Table:
        """The same under other keys, in the order of its own; of two with one name the first is kept."""
        cells: dict[str, list[_Cells]] = {}
        for name, values in zip(keys, self._cells.values(), strict=True):
            cells.setdefault(name, values)
        return Table(self.n, cells, self.labels)

    def moved(self, rows: np.ndarray, other: Callable[[str], str]) -> Table:
        """The same with what some ``rows``, bool of shape (n,), hold under the key that ``other`` makes of each."""
        cells: dict[str, list[_Cells]] = {}
        for key, found in self._cells.items():
            for row, values in found:
                for kept, name in ((~rows[row], key), (rows[row], other(key))):
                    if kept.any():
                        cells.setdefault(name, []).append(_Cells(row[kept], values[kept]))
        return Table(self.n, cells, self.labels)

    def digest(self) -> str:
        """SHA-256 of keys and values, hexadecimal: the identity of rows that come from no file."""
        found = hashlib.sha256()
        for key in self.keys:
            found.update(key.encode("utf-8", "replace") + b"\0" + self.column(key).tobytes())
        return found.hexdigest()

    def appended(self, other: Table) -> Table:
        """This table's rows followed by those of ``other``."""
        cells = {k: list(v) for k, v in self._cells.items()}
        for key, more in other._cells.items():
            cells.setdefault(key, []).extend(_Cells(x.rows + self.n, x.values) for x in more)
        keys = {**self.labels, **other.labels}
        labels = {k: [x for t in (self, other) for x in t.labels.get(k, [""] * t.n)] for k in keys}
        return Table(self.n + other.n, cells, labels)


def _pack(
    waiting: dict[Any, tuple[list[int], list[Any]]], cells: dict[str, list[_Cells]], words: dict[str, dict[int, str]]
) -> None:
    """Puts values into arrays, and the texts of labels aside."""
    for key, (rows, values) in waiting.items():
        cells[str(key)].append(_Cells(np.array(rows), to_floats(values)))
        if _is_label(key):
            texts = {row: value for row, value in zip(rows, values, strict=True) if isinstance(value, str)}
            words.setdefault(str(key), {}).update(texts)
    waiting.clear()


def _is_label(key: Any) -> bool:
    """True if the text under a key is kept."""
    return str(key).strip().lower() in RUN_KEYS | GROUP_KEYS
