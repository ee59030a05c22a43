"""A Parquet table; needs pyarrow, the extra ``parquet``."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from bayes_grpo.common import imports
from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import clean
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source
from bayes_grpo.logs.table import Table, is_label, to_floats, unnested

_MAX_CELLS = 100_000_000


def _sniff(source: Source) -> Evidence | None:
    """Recognises the magic bytes."""
    return Evidence(3, "Parquet") if source.is_parquet else None


def _read(source: Source, wanted: str | None) -> Parsed:
    """Every scalar column as numbers; structs are flattened with "/".

    Raises:
        MissingExtraError: pyarrow is not installed.
        LogReadError: The file is broken.
    """
    pa, pq = imports.arrow()
    try:
        file = pq.ParquetFile(io.BytesIO(source.data))
        _check_size(file.metadata.num_rows, file.metadata.num_columns)
        plain = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type) or _is_struct(field)]
        words = [field.name for field in file.schema_arrow if _is_text(field)]
        # A text of a million rows is decoded once.
        arrow = pq.read_table(io.BytesIO(source.data), columns=plain, use_threads=False, read_dictionary=words)
        columns: dict[str, Any] = {}
        for name, column in zip(arrow.column_names, arrow.columns, strict=True):
            if is_label(name):
                columns.setdefault(name, column.to_pylist())
            elif pa.types.is_dictionary(column.type):
                columns.setdefault(name, _numbers_of_words(column))
            elif pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
                values = column.cast(pa.float64(), safe=False).to_numpy().copy()
                values[np.isnan(values) & column.is_valid().to_numpy()] = np.inf  # logged, and no number
                columns.setdefault(name, values)
            elif pa.types.is_struct(column.type):
                columns |= {k: v for k, v in unnested(name, column.to_pylist()).items() if k not in columns}
            else:
                columns.setdefault(name, column.to_pylist())
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise LogReadError(
            f"expected a Parquet table, found one that cannot be read ({clean(error)}); write it again"
        ) from None
    return Parsed(Table.from_columns(columns))


def _check_size(rows: int, columns: int) -> None:
    """Refuses what would take gigabytes: a compressed table may be a million times its file."""
    if rows * columns > _MAX_CELLS:
        raise LogReadError(
            f"expected a table of at most {_MAX_CELLS:,} cells, found {rows:,} rows of {columns} columns; write the "
            f"metrics by themselves"
        )


def _is_struct(field: Any) -> bool:
    """Whether a column holds structs of plain values."""
    import pyarrow as pa

    return pa.types.is_struct(field.type) and not any(pa.types.is_nested(f.type) or _is_text(f) for f in field.type)


def _is_text(field: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(field.type) or pa.types.is_large_string(field.type) or pa.types.is_binary(field.type)


def _numbers_of_words(column: Any) -> np.ndarray:
    """Numbers that are written as text, shape (n,)."""
    parts = [np.full(len(chunk), np.nan) for chunk in column.chunks]
    for values, chunk in zip(parts, column.chunks, strict=True):
        known = to_floats([x if isinstance(x, str) else None for x in chunk.dictionary.to_pylist()])
        there = chunk.indices.is_valid().to_numpy(zero_copy_only=False)
        values[there] = known[chunk.indices.drop_null().to_numpy(zero_copy_only=False)]
    return np.concatenate(parts) if parts else np.empty(0)


READERS = (Reader("parquet", _sniff, _read),)
