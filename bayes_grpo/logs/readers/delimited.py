"""Tables: delimited text with a header line, also as Weights & Biases exports a chart, and Parquet (pyarrow)."""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.imports import arrow
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.formats import PARQUET, Evidence, Parsed, Reader, Source, chosen_run
from bayes_grpo.logs.keyindex import normal, parted
from bayes_grpo.logs.table import MAX_KEYS, Table, to_float

_DELIMITERS = (",", "\t", ";", "|")
_LOOKED_AT = 12
_CELLS_A_BYTE = 4
"""A full row has a delimiter or an end of line for each of its cells."""
_CHEAP = 1_000_000
_EMPTY = ["", "NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "none", "<NA>", "-"]
_DECIMAL_COMMA = re.compile(r"\d,\d")


def header(source: Source) -> tuple[list[str], str] | None:
    """Column names and delimiter of a file that begins like delimited text, else None."""
    lines = [line for line in source.head.split("\n") if line.strip()][:_LOOKED_AT]
    if len(source.text) > len(source.head) and len(lines) > 1:
        lines.pop()  # maybe cut off by the end of the head
    if not lines or lines[0].lstrip()[:1] in "{[":
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


def load_csv(source: Source, delimiter: str) -> Table:
    """All columns of delimited text as numbers; an error says which line cannot be parsed."""
    data = source.text.encode()
    _check_size(data, delimiter)
    first = data.lstrip(b"\xef\xbb\xbf \t\r\n").partition(delimiter.encode())[0] + delimiter.encode()
    parts = re.split(rb"(?<=\n)(?=" + re.escape(first) + rb")", data)
    if len(parts) > 1:  # a training that was started again has written its header again, maybe with other columns
        return reduce(Table.appended, (load_csv(replace(source, data=part), delimiter) for part in parts if part))
    columns: dict[str, Any] | None = _plain_columns(source.text, delimiter) if len(data) <= _SMALL else None
    return parted(_parsed(source, data, delimiter) if columns is None else columns)


_SMALL = 2_000_000
"""Bytes up to which a table is read without pandas, whose import takes as long as a whole diagnosis."""
_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d+(\.\d*)?|(\.\d+))([eE][+-]?\d+)?", re.ASCII)
_DIGITS = 15
"""Digits of a whole number that a float holds too."""


def _plain_columns(text: str, delimiter: str) -> dict[str, np.ndarray] | None:
    """Columns of a table of numbers and empty cells alone, as pandas reads them; None for any other table."""
    text = text.replace("\r\n", "\n")
    head, *lines = (line.split(delimiter) for line in text.strip("\n").split("\n"))
    names = [name.strip() for name in head]
    ragged = [""] in lines or any(len(x) != len(names) for x in lines)
    if ragged or any(x in text for x in '"\r\ufeff') or len(set(names) - {""}) < len(names):
        return None
    columns: dict[str, np.ndarray] = {}
    for name, cells in zip(names, zip(*lines, strict=True), strict=False):
        values = _plain_column(cells)
        if values is None:
            return None
        columns[name] = values
    return columns or None


def _plain_column(cells: Sequence[str]) -> np.ndarray | None:
    """Numbers of a column, whole ones where all are; None where a cell is neither a number nor empty."""
    whole = True
    values: list[float] = []
    for cell in cells:
        number = _PLAIN_NUMBER.fullmatch(cell)
        if number is None and cell not in _EMPTY:
            return None
        whole = whole and number is not None and not any(number.groups())
        if whole and len(cell) > _DIGITS:
            return None
        values.append(math.nan if number is None else float(cell))
    return np.array(values, int if whole else float)


def _parsed(source: Source, data: bytes, delimiter: str) -> dict[str, Any]:
    """Columns of any table, by pandas."""
    import pandas as pd

    decimal = "," if delimiter == ";" and _DECIMAL_COMMA.search(source.head) else "."
    exact: Any = {"float_precision": "round_trip"} if pd.__version__.startswith(("2.", "3.0.")) else {}  # later: always
    try:
        with warnings.catch_warnings(action="ignore"):
            frame = pd.read_csv(
                io.BytesIO(data),
                sep=delimiter,
                decimal=decimal,
                encoding="utf-8",
                encoding_errors="replace",
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
                keep_default_na=False,
                na_values=_EMPTY,
                **exact,
            )
    except (ValueError, OverflowError, csv.Error, RecursionError, MemoryError) as error:
        raise LogReadError(
            f"expected rows as long as the header, found a table that cannot be parsed "
            f"({clean(error, 160)}); repair that line"
        ) from None
    columns: dict[str, Any] = {}
    for name, series in frame.items():
        values = series.to_numpy()
        columns.setdefault(str(name).strip(), values if values.dtype.kind in "fiub" else _cells(series, decimal))
    return columns


def _cells(series: Any, decimal: str) -> list[Any]:
    """Cells of a column that is not all numbers; None where empty.

    The word "nan" is a value that the trainer wrote, unless it only fills the rows of another kind: then most
    cells have it, none is empty, and numbers stand after it.
    """
    cells = [x if isinstance(x, str) else None for x in series.astype(object).map(lambda x: str(x) if x == x else None)]
    if decimal == ",":
        cells = [x and x.replace(",", ".") for x in cells]
    words = [x is not None and x.strip().lower().lstrip("+-") == "nan" for x in cells]
    if 2 * sum(words) <= len(cells) or None in cells or all(words[np.flatnonzero(words)[sum(words) // 2] :]):
        return cells
    return [None if word else x for x, word in zip(cells, words, strict=True)]


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
    """Whether text ends with a number of its own, as "step 12" and "reward=0.3"."""
    *name, number = re.split(r"[\s=:]", text)
    return bool(name) and math.isfinite(to_float(number))


_KNOWN = re.compile(r"(?:step|reward|score|loss|iteration|accuracy|kl)s?")
"""Words of which names in a table of training metrics have at least one."""
_NAME = re.compile(r"\A(?:[\w.@-]+/)*+\w+")


def _sniff_csv_table(source: Source) -> Evidence | None:
    """Recognizes a header over rows of the same width, with a name that metrics have."""
    if (found := header(source)) is None:
        return None
    names = [normal(name) for name in found[0]]
    known = any(_NAME.fullmatch(name) and any(map(_KNOWN.fullmatch, re.split("[/_]", name))) for name in names)
    if known or source.path.suffix.lower() in (".csv", ".tsv"):
        return Evidence(2 if known else 1)
    return None


def _read_csv_table(source: Source, wanted: str | None) -> Parsed:
    """Every column as numbers, under its header."""
    return Parsed(load_csv(source, _header(source)[1]))


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
    table = load_csv(source, delimiter)
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
    return "name" in plain and len(plain & _TABLE_MARKS) >= 2


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
    return Parsed(parted(columns))


READERS = (
    Reader("csv", _sniff_csv_table, _read_csv_table),
    Reader("wandb_csv", _sniff_wandb_csv, _read_wandb_csv, takes_run=True),
    Reader("parquet", lambda x: Evidence(3) if x.data.startswith(PARQUET) else None, _read_parquet),
)
