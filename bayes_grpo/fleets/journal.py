"""What a fleet has finished, line by line, so that a later call goes on where an earlier one was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import OutputError
from bayes_grpo.fleets.table import is_row


def journal_of(out: Path) -> Path:
    """Where the journal of a table lies: beside it."""
    return out.with_name(f"{out.name}.journal.jsonl")


class Journal:
    """Finished rows by their keys; every one is on the disk before the next is begun to be written.

    Attributes:
        rows: Key → row.
    """

    def __init__(self, rows: dict[str, dict[str, Any]], file: Any = None) -> None:
        self.rows = rows
        self._file = file

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Keeps a row.

        Raises:
            OutputError: It cannot be written.
        """
        self.rows[key] = row
        if self._file is None:
            return
        line = json.dumps({"key": key, "row": row}, allow_nan=False, ensure_ascii=False)
        try:
            self._file.write(f"{line}\n".encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"{self._file.name}: cannot write there ({error.strerror}); free some room") from error


@contextmanager
def journal(path: Path | None, resume: bool = True) -> Iterator[Journal]:
    """A journal, open for writing.

    Args:
        path: Its file, which is made where there is none; None for one that is forgotten.
        resume: Whether what stands in it counts; it is begun anew otherwise.

    Raises:
        OutputError: It cannot be written.
    """
    if path is None:
        yield Journal({})
        return
    rows = _read(path) if resume else {}
    try:
        file = path.open("ab" if resume else "wb")
    except OSError as error:
        raise OutputError(f"{path}: cannot write there ({error.strerror}); choose another place") from error
    with file:
        if resume and _is_cut_off(path):
            file.write(b"\n")  # else the next line would be glued to what a killed process has left
        yield Journal(rows, file)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Whole lines of a journal; one that was cut off, or that no fleet has written, counts for nothing."""
    rows: dict[str, dict[str, Any]] = {}
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return rows
    except OSError as error:
        raise OutputError(f"{path}: cannot read this journal ({error.strerror}); move it away") from error
    for line in lines:
        try:
            entry = json.loads(line)
            key, row = entry["key"], dict(entry["row"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(key, str) and is_row(row):
            rows[key] = row
    return rows


def _is_cut_off(path: Path) -> bool:
    content = path.read_bytes()
    return bool(content) and not content.endswith(b"\n")
