"""A Parquet table of metrics; needs pyarrow, the extra ``parquet``."""

import io

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.imports import arrow
from bayes_grpo.common.text import clean
from bayes_grpo.logs.formats import PARQUET, Evidence, Parsed, Reader, Source
from bayes_grpo.logs.keyindex import parted

_TEXT, _NUMBER = ("string", "large_string"), ("float", "halffloat", "double", "int", "uint", "bool")
_MAX_CELLS = 20_000_000  # a compressed table may be a million times its file, so each text is decoded once


def _read(source: Source, wanted: str | None) -> Parsed:
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


READERS = (Reader("parquet", lambda x: Evidence(3) if x.data.startswith(PARQUET) else None, _read),)
