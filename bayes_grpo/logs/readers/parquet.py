"""A Parquet table; needs pyarrow, the extra ``parquet``."""

from __future__ import annotations

import io
from typing import Any

from bayes_grpo.common.errors import LogReadError, MissingExtraError
from bayes_grpo.common.wording import clean
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, flatten

NAME = "parquet"


def sniff(source: Source) -> Evidence | None:
    """Recognises the magic bytes."""
    return Evidence(3, "Parquet") if source.is_parquet else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Every scalar column as numbers; structs are flattened with "/".

    Raises:
        MissingExtraError: pyarrow is not installed.
        LogReadError: The file is broken.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(
            "reading Parquet needs pyarrow, which is not installed; install bayes-grpo[parquet]"
        ) from None
    try:
        arrow = pq.read_table(io.BytesIO(source.data), use_threads=False)
        columns: dict[str, Any] = {}
        for name, column in zip(arrow.column_names, arrow.columns, strict=True):
            if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
                columns.setdefault(name, column.cast(pa.float64(), safe=False).to_numpy())
            elif pa.types.is_struct(column.type):
                nested = [flatten({name: value}) if value else {} for value in column.to_pylist()]
                for key in dict.fromkeys(k for row in nested for k in row):
                    columns.setdefault(key, [row.get(key) for row in nested])
            else:
                columns.setdefault(name, column.to_pylist())
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise LogReadError(
            f"expected a Parquet table, found one that cannot be read ({clean(error)}); write it again"
        ) from None
    return Parsed(Table.from_columns(columns))
