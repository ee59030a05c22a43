"""The table of a fleet: which columns, of which types, and its file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.errors import MissingExtraError, OutputError
from bayes_grpo.common.files import check_writable, written_whole
from bayes_grpo.common.strict_json import json_safe

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".parquet", ".csv", ".json")
"""What a table can be written as."""
_WHO = ("log", "source", "log_hash", "task", "regime", "seed", "signal", "rows", "first_step", "last_step", "verdict")
_OF_TASK: Mapping[str, tuple[str, ...]] = {
    "fit": ("converged", "rhat", "ess", "r2"),
    "forecast": ("until", "until_from", "p_gain", "p_peaked", "gain_threshold", "notes"),
    "diagnose": ("status", "to_do"),
}
_LAST = ("seconds", "error")
_TEXT = {"log", "source", "log_hash", "task", "regime", "signal", "verdict", "until_from", "notes", "error"}
_TEXT |= {"status", "to_do"}
_TYPES = {"seed": "Int64", "rows": "Int64", "converged": "boolean"} | dict.fromkeys(_TEXT, "str")


def table_of(rows: Sequence[Mapping[str, Any]], tasks: Sequence[str]) -> pd.DataFrame:
    """The table, one row a log, task and law.

    Args:
        rows: Columns by name; None, or a column that is not there, stands for what is unknown.
        tasks: Tasks that were asked for; each has its columns even where it has no row.

    Returns:
        Texts are never missing ("" instead), ``seed`` and ``rows`` are nullable integers, ``converged`` is a nullable
        truth value, and everything else is a float, NaN where it is unknown.
    """
    import pandas as pd

    known = [*_WHO, *(c for task in _OF_TASK if task in tasks for c in _OF_TASK[task])]
    numbers = dict.fromkeys(c for row in rows for c in row if c not in known and c not in _LAST)
    columns = {}
    for name in (*known, *numbers, *_LAST):
        kind = _TYPES.get(name, "float64")
        values = [row.get(name) for row in rows]
        columns[name] = pd.Series(["" if v is None else v for v in values] if kind == "str" else values, dtype=kind)
    return pd.DataFrame(columns)


def is_row(row: Mapping[str, Any]) -> bool:
    """Whether a row out of a file can stand in the table: every value is of its column's type, or unknown."""
    return all(value is None or _is_of(_TYPES.get(str(name), "float64"), value) for name, value in row.items())


def _is_of(kind: str, value: Any) -> bool:
    if kind == "str":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return whole or (kind == "float64" and isinstance(value, float) and math.isfinite(value))


def check_table(path: Path) -> None:
    """Raises now if the table could not be written later, before minutes of work.

    Raises:
        MissingExtraError: Parquet without pyarrow.
        OutputError: An unknown suffix, or a place that cannot be written to.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(
            f"{path}: expected a table's file name ending in {', '.join(SUFFIXES)}, found "
            f"{path.suffix or 'no suffix'!r}"
        )
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise MissingExtraError(
            "writing Parquet needs pyarrow, which is not installed; install bayes-grpo[parquet], or write .csv or .json"
        )
    check_writable(path)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Writes the table whole or not at all; the suffix names the format.

    Raises:
        OutputError: The place cannot be written to.
    """
    with written_whole(path) as temporary:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(temporary, engine="pyarrow", index=False)
        elif path.suffix.lower() == ".csv":
            frame.to_csv(temporary, index=False)
        else:
            text = json.dumps(records_of(frame), allow_nan=False, ensure_ascii=False, indent=1)
            temporary.write_text(text + "\n", encoding="utf-8")


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries, ready for JSON; what is unknown is None."""
    import pandas as pd

    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [json_safe({str(k): None if v is pd.NA else v for k, v in row.items()}) for row in records]
