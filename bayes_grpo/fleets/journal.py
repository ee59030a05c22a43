"""The finished rows of a fleet, one JSON line each, so that a later call resumes after a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from bayes_grpo.common.errors import OutputError
from bayes_grpo.fleets.table import is_row


def journal_of(out: Path) -> Path:
    """Where the journal of a table lies: next to it."""
    return out.with_name(f"{out.name}.journal.jsonl")


class Journal:
    """Finished rows by key; every row is on the disk before the next is written.

    Attributes:
        rows: Key → row.
    """

    def __init__(self, rows: dict[str, dict[str, Any]], file: BinaryIO | None = None) -> None:
        self.rows, self._file = rows, file

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Keeps a row.

        Raises:
            OSError: It cannot be written.
        """
        self.rows[key] = row
        if self._file is not None:
            line = json.dumps({"key": key, "row": row}, allow_nan=False, ensure_ascii=False)
            self._file.write(f"{line}\n".encode())
            self._file.flush()
            os.fsync(self._file.fileno())


@contextmanager
def journal(path: Path | None, resume: bool = True) -> Iterator[Journal]:
    """A journal, open for writing.

    Args:
        path: Its file, which is made where there is none; None to keep nothing.
        resume: Whether its rows count; it is begun anew otherwise.

    Raises:
        OutputError: It cannot be read or written.
    """
    if path is None:
        yield Journal({})
        return
    try:
        with path.open("a+b" if resume else "w+b") as file:
            file.seek(0)
            content = file.read()
            if content and not content.endswith(b"\n"):
                file.write(b"\n")  # a killed call left half a line, to which the next would be glued
            yield Journal(dict(_rows(content)), file)
    except OSError as error:
        raise OutputError(f"{path}: cannot write there ({error.strerror}); free some room or move it away") from error


def _rows(content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Key and row of every whole line; a line that was cut off, or that is not a fleet's, is skipped."""
    for line in content.splitlines():
        try:
            entry = json.loads(line)
            key, row = entry["key"], dict(entry["row"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(key, str) and is_row(row):
            yield key, row
