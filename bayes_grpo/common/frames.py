"""Results as pandas tables: one row a quantity, law, origin or answer; one rule for intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.results import Result

if TYPE_CHECKING:
    import pandas as pd


def frame_of(rows: Iterable[Any], index: str | list[str], columns: Iterable[str] = ()) -> pd.DataFrame:
    """A table of records.

    Args:
        rows: Records with the same fields: mappings, dataclasses, or results with what they list (`Result.contents`).
            An `Interval` under ``name`` becomes the columns ``name`` (its median), ``name_low`` and ``name_high``; the
            probability inside it stands in the table's ``attrs["interval_level"]``.
        index: Field, or fields, that name a row.
        columns: Columns of a table without rows.

    Returns:
        The table, numbers as they are: NaN and infinity stay.
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
