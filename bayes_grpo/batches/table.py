"""The table of a batch: its columns and their types, its file, and the journal of finished rows."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.errors import MissingExtraError, OutputError
from bayes_grpo.common.files import atomic_write, check_writable
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.results import Result, json_safe
from bayes_grpo.common.text import counted
from bayes_grpo.diagnosis.status import SEVERITY

if TYPE_CHECKING:
    import pandas as pd


SUFFIXES = (".parquet", ".csv")
"""Formats of a table."""
_FIRST = {
    **dict.fromkeys(("log", "source", "log_hash", "status"), "str"),
    **{"p_status": "float64", "reason": "str", "to_do": "str", "seed": "Int64", "rows": "Int64"},
    **{"first_step": "float64", "last_step": "float64"},
    **{f"reward_{word}": "float64" for word in ("first", "last", "best", "best_step")},
}
_OF_PART: Mapping[str, Mapping[str, str]] = {
    "fit": {"fit": "str", "signal": "str", "fit_rows": "Int64"}
    | {"converged": "boolean", "rhat": "float64", "ess": "float64", "r2": "float64"},
    "forecast": {"forecast": "str", "signal": "str", "until": "float64", "until_from": "str"}
    | {"p_gain": "float64", "p_peaked": "float64", "gain_threshold": "float64", "notes": "str"},
    "diagnosis": {"diagnosis": "str", "failing": "float64"},
}
_LAST = {"seconds": "float64", "error": "str"}
_TYPES = _FIRST | {k: kind for columns in _OF_PART.values() for k, kind in columns.items()} | _LAST


def table_of(rows: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> pd.DataFrame:
    """The table, one row a log; each part has its columns even where no row has values there.

    Texts are never missing ("" instead), ``seed``, ``rows`` and ``fit_rows`` are nullable integers, ``converged`` is a
    nullable truth value, and everything else is a float, NaN where it is unknown.
    """
    import pandas as pd

    known = list(dict.fromkeys([*_FIRST, *(c for part, own in _OF_PART.items() if part in parts for c in own)]))
    numbers = dict.fromkeys(c for row in rows for c in row if c not in known and c not in _LAST)
    columns = {}
    for name in (*known, *numbers, *_LAST):
        kind = _TYPES.get(name, "float64")
        values = [row.get(name) for row in rows]
        if kind == "str":
            values = ["" if v is None else v for v in values]
        columns[name] = pd.Series(values, dtype=kind)
    return pd.DataFrame(columns)


def _fits(column: str, value: Any) -> bool:
    """True where a value out of a file is of its column's type."""
    kind = _TYPES.get(column, "float64")
    if value is None or kind in ("str", "boolean"):
        return value is None or isinstance(value, str if kind == "str" else bool)
    is_integer = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return is_integer or (kind == "float64" and isinstance(value, float) and math.isfinite(value))


def check_table(path: Path) -> None:
    """Raises now if the table could not be written later, before minutes of work."""
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(
            f"{path}: expected a table's file name ending in {', '.join(SUFFIXES)}, found "
            f"{path.suffix or 'no suffix'!r}"
        )
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise MissingExtraError(
            "writing Parquet needs pyarrow, which is not installed; install bayes-grpo[parquet], or write .csv"
        )
    check_writable(path)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Writes the table whole or not at all; the suffix names the format."""
    with atomic_write(path) as temporary:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(temporary, engine="pyarrow", index=False)
        else:
            frame.to_csv(temporary, index=False)


def journal_of(out: Path) -> Path:
    """Path of a table's journal."""
    return out.with_name(f"{out.name}.journal.jsonl")


def finished_rows(path: Path | None, resume: bool = True) -> dict[str, dict[str, Any]]:
    """Rows of a journal by key, so that a later call resumes after a kill; without ``resume`` it is emptied."""
    if path is None:
        return {}
    with _writing(path, "a+b" if resume else "w+b") as file:
        file.seek(0)
        content = file.read()
        if content and not content.endswith(b"\n"):
            file.write(b"\n")  # a killed call left half a line, to which the next would be glued
    return dict(_rows(content))


def keep_row(path: Path | None, key: str, row: Mapping[str, Any]) -> None:
    """Adds a row to a journal, if there is one; it is on the disk when this returns."""
    if path is not None:
        line = json.dumps({"key": key, "row": row}, allow_nan=False, ensure_ascii=False)
        with _writing(path, "ab") as file:
            file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def _writing(path: Path, mode: str) -> Iterator[Any]:
    try:
        with path.open(mode) as file:
            yield file
    except OSError as error:
        raise OutputError(f"{path}: cannot write there ({error.strerror}); free some room or move it away") from error


def _rows(content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Key and row of every line; one that was cut off, or whose values have other types, is skipped."""
    for line in content.splitlines():
        try:
            entry = json.loads(line)
            key = entry["key"]
            row = dict(entry["row"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(key, str) and all(_fits(name, value) for name, value in row.items()):
            yield key, row


@dataclass(frozen=True, eq=False)
class Batch(Result):
    """Many logs in one table.

    Attributes:
        frame: One row a log, in the order in which logs were named.

            - ``log``, ``source``, ``log_hash``: which log; ``status``: how the run stands, with ``p_status``, the
              ``reason`` and ``to_do``, the one thing to do (`bayes_grpo.diagnosis.status`); ``seed``: gives the same
              numbers in `bayes_grpo.fit` and `forecast`; ``rows``, ``first_step``, ``last_step``: the rows of the log;
              ``reward_first``, ``reward_last``, ``reward_best`` and its step: levels without the noise of the rows,
              and ``eval_reward_…`` where evaluations are logged.
            - diagnosis: its sentence as ``diagnosis``, ``failing``, that something fails, and ``p_…``, the
              probability of each failure, alone or with others.
            - fit: its sentence as ``fit``, ``fit_rows``, ``converged``, ``rhat`` (largest), ``ess`` (smallest), ``r2``,
              ``p_growth`` and others, and of every parameter and derived quantity ``name_5``, ``name_50``, ``name_95``,
              quantiles in percent.
            - forecast: its sentence as ``forecast``, ``until`` and ``until_from`` (horizon and where it comes from),
              ``now_5`` … ``at_horizon_5`` … ``gain_5`` … (reward now, at the horizon, and between the two), ``p_gain``
              (that it exceeds ``gain_threshold``), ``p_peaked``, ``notes``.
            - ``seconds`` of work; ``error``: which part has no numbers and why, "" where all have.
        resumed: Rows that the journal had, from an earlier call.
        seconds: Duration of this call.
    """

    frame: pd.DataFrame
    resumed: int
    seconds: float

    interval_level = LEVEL
    also_in_json = ("sentence", "interval_level", "logs", "errors", "table")
    not_in_json = ("frame",)

    @property
    def logs(self) -> int:
        """Number of logs, those that cannot be read included."""
        return len(self.frame)

    @property
    def errors(self) -> int:
        """Logs of which some part has no numbers."""
        return sum(map(bool, self.frame["error"].tolist()))

    @property
    def table(self) -> list[dict[str, Any]]:
        """Rows as dictionaries, ready for JSON; what is unknown is None."""
        import pandas as pd

        records = self.frame.astype(object).where(self.frame.notna(), None).to_dict("records")
        return [json_safe({str(k): None if v is pd.NA else v for k, v in row.items()}) for row in records]

    @property
    def sentence(self) -> str:
        """The batch in words."""
        return f"{'; '.join(self.clauses)}."

    @property
    def clauses(self) -> tuple[str, ...]:
        """The batch in words: how many logs, then what is known of them."""
        rows = self.table
        if not rows:
            return ("no log was found",)
        parts = [f"{counted(len(rows), 'log')}, {self.errors or 'none'} with an error"]
        parts[0] += f", {self.resumed} from the journal" if self.resumed else ""
        if statuses := Counter(row["status"].replace("_", " ") for row in rows if row["status"]):
            worst_first = sorted(statuses.most_common(), key=lambda x: -SEVERITY.get(x[0], 0))
            parts.append(", ".join(f"{n} {status}" for status, n in worst_first))
        if fits := [row["converged"] for row in rows if row.get("converged") is not None]:
            parts.append(f"{sum(fits)} of {counted(len(fits), 'fit')} converged")
        if gains := [row["p_gain"] >= 0.8 for row in rows if row.get("p_gain") is not None]:
            parts.append(f"{sum(gains)} of {counted(len(gains), 'run')} expected to rise (probability 0.8 or more)")
        return tuple(parts)

    def to_frame(self) -> pd.DataFrame:
        """A copy of the table."""
        return self.frame.copy()
