"""Delimited text → header and float columns, fast enough for a million rows."""

from __future__ import annotations

import csv
import io
import re
import warnings
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean
from bayes_grpo.logs.rowkinds import parted
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import MAX_KEYS, Table

_DELIMITERS = (",", "\t", ";", "|")
_LOOKED_AT = 12
_CELLS_A_BYTE = 4
"""A full row has a delimiter or an end of line for each of its cells."""
_CHEAP = 1_000_000
_EMPTY = ["", "NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "none", "<NA>", "-"]
_NAN = ("nan", "-nan", "+nan")
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
    if not any(names) or any(_is_number(name) for name in names):
        return None
    return names, delimiter


def load_csv(source: Source, delimiter: str) -> Table:
    """All columns of delimited text as numbers.

    Raises:
        LogReadError: A line has more cells than the header, or quotes do not close; says where.
    """
    import pandas as pd

    data = source.text.encode() if source.is_utf16 else source.data
    _check_size(data, delimiter)
    decimal = "," if delimiter == ";" and _DECIMAL_COMMA.search(source.head) else "."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
            )
    except (ValueError, OverflowError, csv.Error, RecursionError, MemoryError) as error:
        raise LogReadError(
            f"expected rows as long as the header, found a table that cannot be parsed "
            f"({clean(error, 160)}); repair that line"
        ) from None
    columns: dict[str, Any] = {}
    for position, name in enumerate(frame.columns):
        series = frame.iloc[:, position]
        values = series.to_numpy()
        columns.setdefault(str(name).strip(), values if values.dtype.kind in "fiub" else _cells(series, decimal))
    return Table.from_columns(parted(columns))


def _cells(series: Any, decimal: str) -> list[Any]:
    """Cells of a column that is not all numbers; None where empty.

    The word "nan" is a value that the trainer wrote, unless it only fills the rows of another kind: then most
    cells have it, none is empty, and numbers stand after it.
    """
    cells = [x if isinstance(x, str) else None for x in series.astype(object).map(lambda x: str(x) if x == x else None)]
    if decimal == ",":
        cells = [x and x.replace(",", ".") for x in cells]
    words = [i for i, x in enumerate(cells) if x is not None and x.strip().lower() in _NAN]
    if 2 * len(words) > len(cells) and None not in cells:
        others = sorted(set(range(len(cells))) - set(words))
        if others and others[-1] > words[len(words) // 2]:
            cells = [None if x is not None and x.strip().lower() in _NAN else x for x in cells]
    return cells


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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
