"""Tables: delimited text with a header line, also as Weights & Biases exports a chart, and Parquet (pyarrow)."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.imports import arrow
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.formats import PARQUET, Evidence, Parsed, Reader, Source, chosen_run
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.row_shapes import is_long, parsed_columns
from bayes_grpo.logs.table import MAX_KEYS, Table, to_float
from bayes_grpo.logs.text_shapes import TextTable, may_hold_table, table_in

_DELIMITERS = (",", "\t", ";", "|")
_LOOKED_AT = 12
_CELLS_A_BYTE = 4
"""A full row has a delimiter or an end of line for each of its cells."""
_CHEAP = 1_000_000
"""Cells that are read at once."""
_CHEAP_LONG = 16 * _CHEAP
"""The same of a table with one metric a row, whose metrics may follow each other over all steps."""
_EMPTY = frozenset(("", "NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "none", "<NA>", "-"))
_DECIMAL_COMMA = re.compile(r"\d,\d")


def header(source: Source) -> tuple[list[str], str] | None:
    """Column names and delimiter of a file that begins like delimited text, else None."""
    lines = [line for line in source.head.split("\n") if line.strip()][:_LOOKED_AT]
    if len(source.text) > len(source.head) and len(lines) > 1:
        lines.pop()  # maybe cut off by the end of the head
    if not lines or lines[0].lstrip()[:1] in "{[|":
        return None
    widths = {d: [len(_split(line, d)) for line in lines] for d in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda d: (widths[d][0], -_DELIMITERS.index(d)))
    names = [name.strip() for name in _split(lines[0], delimiter)]
    if any(abs(width - len(names)) > 1 for width in widths[delimiter]):
        return None
    if not any(names) or any(math.isfinite(to_float(name)) for name in names):
        return None
    if all(map(_is_pair, names)) or (len(names) == 1 and len(names[0].split()) > 1):
        return None  # a row of "step 1 | reward 0.2", or columns between spaces
    return names, delimiter


def load_csv(source: Source, delimiter: str) -> Parsed:
    """All columns of delimited text as numbers; an error says which line cannot be parsed.

    A header that comes again, maybe with other columns, begins the rows of a training that was started again.
    """
    _check_size(source.text.encode(), delimiter)
    decimal = "," if delimiter == ";" and _DECIMAL_COMMA.search(source.head) else "."
    parts: list[Parsed] = []
    names: list[str] = []
    rows: list[list[str]] = []
    long = False

    def put() -> None:
        columns: dict[str, Any] = {}
        for name, cells in zip(names, zip_longest(*rows, fillvalue=""), strict=False):
            columns.setdefault(name, _column(cells, decimal))
        parts.append(
            parsed_columns(columns | {name: np.full(len(rows), np.nan) for name in names if name not in columns})
        )
        rows.clear()

    lines = csv.reader(io.StringIO(source.text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in filter(None, lines):
            if not names or row[0].strip() == names[0]:
                if rows:
                    put()
                names = [name.strip() for name in row]
                long = is_long(names)
                continue
            if len(row) > len(names) and any(row[len(names) :]):
                raise csv.Error(f"{len(row)} cells below {len(names)} names")
            rows.append(row)
            if len(rows) * len(names) >= (_CHEAP_LONG if long else _CHEAP):
                put()
    except csv.Error as error:
        raise LogReadError(
            f"expected rows as long as the header, found a table that cannot be parsed "
            f"({clean(error, 160)} in line {lines.line_num}); repair that line"
        ) from None
    if rows or not parts:
        put()
    return reduce(Parsed.followed_by, parts)


_WORDS = {**dict.fromkeys(_EMPTY, "inf"), "True": "1", "False": "0"}


def _column(cells: Sequence[str], decimal: str) -> np.ndarray | list[str | None]:
    """Numbers of a column, NaN where empty and an infinity for what is none; its cells where one is a text.

    The word "nan" is a value that the trainer wrote, unless it only fills the rows of another kind: then most
    cells have it, none is empty, and numbers stand after it.
    """
    if decimal == ",":
        cells = [cell.replace(",", ".") for cell in cells]
    try:
        values = np.array([_WORDS.get(cell, cell) for cell in cells], np.float64)
    except ValueError:
        return [None if cell in _EMPTY else cell for cell in cells]
    words = np.isnan(values)
    lacks = np.flatnonzero(np.isinf(values)).tolist()
    values[words] = np.inf
    values[[i for i in lacks if cells[i] in _EMPTY]] = np.nan
    half = np.flatnonzero(words)[words.sum() // 2 :]
    if 2 * words.sum() > len(values) and not np.isnan(values).any() and not words[half[0] :].all():
        values[words] = np.nan
    return values


def _check_size(data: bytes, delimiter: str) -> None:
    """Refuses what would take much more memory than the file: pandas fills short rows up to the header's width."""
    width = data.lstrip().partition(b"\n")[0].count(delimiter.encode()) + 1
    if width > MAX_KEYS:
        raise LogReadError(
            f"expected a header of at most {MAX_KEYS} columns, found {width}; pass a file with a column for each metric"
        )
    lines = data.count(b"\n") + data.count(b"\r")
    if lines * width > _CELLS_A_BYTE * len(data) + _CHEAP:
        raise LogReadError(
            f"expected rows as long as the header of {width} columns, found {lines} that are mostly shorter; "
            f"write every row in full"
        )


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return []


def _is_pair(text: str) -> bool:
    """True if text ends with a number of its own, as "step 12", "step 1/20" and "reward=0.3"."""
    *name, number = re.split(r"[\s=:]", text)
    return bool(name) and math.isfinite(to_float(number.partition("/")[0]))


_METRIC_WORD = re.compile(r"(?:step|reward|score|loss|iteration|accuracy|kl)s?")
"""Words of which names in a table of training metrics have at least one."""
_NAME = re.compile(r"\A(?:[\w.@-]+/)*+\w+")


def _sniff_csv_table(source: Source) -> Evidence | None:
    """Recognizes a header over rows of the same width, with a name that metrics have; or another shape of a table."""
    if (other := _of_other_shape(source, source.head)) is not None:
        return Evidence(2, len(next(iter(other.columns.values()))))
    if (found := header(source)) is None:
        return None
    names = [normal(name) for name in found[0]]
    places = [
        i for i, x in enumerate(names) if _NAME.fullmatch(x) and any(map(_METRIC_WORD.fullmatch, re.split("[/_]", x)))
    ]
    rows = [_split(line, found[1]) for line in source.head.split("\n")[1:_LOOKED_AT] if line.strip()]
    numbers = (math.isfinite(to_float(row[i])) for row in rows for i in places if i < len(row))
    known = bool(places) and (not rows or any(numbers))  # a line of prose may name a reward behind a comma
    if known or source.path.suffix.lower() in (".csv", ".tsv"):
        return Evidence(2 if known else 1)
    return None


def _of_other_shape(source: Source, text: str) -> TextTable | None:
    return table_in(text, source.path.stem) if may_hold_table(source.head) else None


def _read_csv(source: Source, wanted: str | None) -> Parsed:
    """Rows below a header, or those of a table of another shape."""
    if _of_other_shape(source, source.head) and (other := _of_other_shape(source, source.text)) is not None:
        return parsed_columns({**other.columns}).noted(other.note)
    return load_csv(source, _header(source)[1])


def _header(source: Source) -> tuple[list[str], str]:
    if (found := header(source)) is None:
        raise LogReadError("expected a table with a header line of column names, found none; add one")
    return found


_SEPARATOR = " - "
_BOUNDS = ("__MIN", "__MAX")
_STEP_AXES = ("step", "global_step", "_step", "iteration")
_TABLE_MARKS = {"state", "created", "runtime", "user", "sweep", "notes", "tags", "end time", "id"}


def _sniff_wandb_csv(source: Source) -> Evidence | None:
    """Recognizes the paired bounds of a chart export, or the columns of a runs table."""
    names, _ = header(source) or ([""], "")
    bounds = any(name.endswith(_BOUNDS) and _SEPARATOR in name for name in names)
    chart = len(names) > 1 and all(_SEPARATOR in name for name in names[1:]) and _is_step(names[0])
    return Evidence(3) if bounds or chart or _is_runs_table(names) else None


def _read_wandb_csv(source: Source, wanted: str | None) -> Parsed:
    """The metrics of one run over the chart's x axis."""
    names, delimiter = _header(source)
    if _is_runs_table(names):
        raise LogReadError(
            "expected a chart export with a history, found a table of runs (one row a run); "
            "export the reward chart as CSV, or the run's history"
        )
    columns = {name: name.rpartition(_SEPARATOR)[::2] for name in names[1:] if _SEPARATOR in name}
    if not columns:
        raise LogReadError(
            f"expected columns '<run> - <metric>', found {listed(names)}; read it with {MENDING}",
            mended_by=Argument("format", "csv"),
        )
    runs = list(dict.fromkeys(run for run, _ in columns.values()))
    run = chosen_run(runs, wanted)
    table = load_csv(source, delimiter).table
    metrics = {name: metric for name, (of, metric) in columns.items() if of == run and not metric.endswith(_BOUNDS)}
    axis = names[0]
    notes = [f"run {clean(run)!r} of a Weights & Biases chart over {clean(axis)!r}"]
    if not _is_step(axis):
        notes.append(f"the x axis {clean(axis)!r} is not the step; rows are counted unless --column step=KEY names one")
    low, high = _BOUNDS
    if any(np.any(table.column(name + high) > table.column(name + low)) for name in metrics):
        notes.append("values lie between MIN and MAX: the chart averaged several rows into one; export more points")
    renamed = {axis: "step" if _is_step(axis) else axis, **metrics}
    return Parsed(Table.from_columns({new: table.column(old) for old, new in renamed.items()}), notes=tuple(notes))


def _is_step(name: str) -> bool:
    return normal(name).rsplit("/", 1)[-1] in _STEP_AXES


def _is_runs_table(names: list[str]) -> bool:
    plain = {name.strip().lower() for name in names}
    return "name" in plain and ("state" in plain or len(plain & _TABLE_MARKS) > 1)


_TEXT = ("string", "large_string")
_NUMBER = ("float", "halffloat", "double", "int", "uint", "bool")
_MAX_CELLS = 20_000_000  # a compressed table may be a million times its file, so each text is decoded once


def _read_parquet(source: Source, wanted: str | None) -> Parsed:
    """Every column of numbers or texts."""
    pa, pq = arrow()
    columns = {}
    try:
        kinds = {x.name: str(x.type) for x in pq.read_schema(io.BytesIO(source.data))}
        file = pq.ParquetFile(io.BytesIO(source.data), read_dictionary=[k for k in kinds if kinds[k] in _TEXT])
        if file.metadata.num_rows * len(kinds) > _MAX_CELLS:
            raise ValueError(f"more than {_MAX_CELLS:,} cells")
        for name in (k for k in kinds if kinds[k].startswith((*_TEXT, *_NUMBER))):
            column = file.read(columns=[name], use_threads=False).column(0)
            if kinds[name] in _TEXT:
                texts = [(x.dictionary.to_pylist(), x.indices.to_pylist()) for x in column.chunks]
                columns[name] = [None if i is None else known[i] for known, rows in texts for i in rows]
            else:
                columns[name] = column.cast(pa.float64(), safe=False).to_numpy().copy()
                columns[name][np.isnan(columns[name]) & column.is_valid().to_numpy()] = np.inf  # logged as NaN
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        why = f"expected a Parquet table of metrics, found one that cannot be read ({clean(error)}); write it again"
        raise LogReadError(why) from None
    return parsed_columns(columns)


READERS = (
    Reader("csv", _sniff_csv_table, _read_csv),
    Reader("wandb_csv", _sniff_wandb_csv, _read_wandb_csv, takes_run=True),
    Reader("parquet", lambda x: Evidence(3) if x.data.startswith(PARQUET) else None, _read_parquet),
)
