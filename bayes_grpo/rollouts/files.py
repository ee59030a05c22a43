"""Files of a folder of rollouts and the records in them: what is cut, damaged or too long is counted and left out."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, NamedTuple

from bayes_grpo.common import imports
from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import clean

LONGEST_LINE = 64 * 2**20
"""Bytes of a line that is still read: a completion of a million tokens has about 4 MB."""
_PIECE = 2**20
_ROWS = 2_048
_DEEPEST, _MOST = 6, 200_000
_EVAL = re.compile(r"(^|[/_.-])(val|valid|validation|eval|evals)([/_.-]|$)", re.IGNORECASE)
_decode = json.JSONDecoder().decode


@dataclass
class SkippedRecords:
    """Counts of what could not be read: damaged lines, files that break off, long lines, incomplete records."""

    lines: int = 0
    cut: int = 0
    long: int = 0
    records: int = 0

    def notes(self) -> tuple[str, ...]:
        """The same in words."""
        found = (
            (self.lines, "damaged line{} left out"),
            (self.cut, "file{} cut off at the end"),
            (self.long, f"line{{}} over {LONGEST_LINE >> 20} MB left out"),
            (self.records, "record{} without a reward or a step left out"),
        )
        return tuple(f"{n} {words.format('s' * (n > 1))}" for n, words in found if n)


def unpacked(path: Path) -> BufferedReader[FileIO] | gzip.GzipFile:
    """A file's bytes, unpacked where it is gzip."""
    try:
        file = BufferedReader(FileIO(path), _PIECE)
        packed = file.peek(2)[:2] == b"\x1f\x8b"
    except OSError as error:
        raise LogReadError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    return gzip.GzipFile(fileobj=file) if packed else file


def json_lines(path: Path, skipped: SkippedRecords) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines, also gzip."""
    with unpacked(path) as file:
        try:
            while line := file.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    skipped.long += 1
                    while line and not line.endswith(b"\n"):
                        line = file.readline(_PIECE)
                    continue
                if line.isspace():
                    continue
                try:
                    record = _decode(line.decode("utf-8", "replace").strip())
                except (ValueError, RecursionError):
                    record = None
                if isinstance(record, dict):
                    yield record
                elif line.endswith(b"\n"):
                    skipped.lines += 1
                else:
                    skipped.cut += 1
        except (EOFError, zlib.error, OSError):
            skipped.cut += 1


def records_of(
    path: Path, skipped: SkippedRecords, used: Callable[[str], bool] = lambda name: True
) -> Iterator[dict[str, Any]]:
    """The records of JSON lines, Parquet or CSV; of a Parquet table the numbers and the columns that are used.

    Raises:
        LogReadError: It is no such file, or has nothing in it.
        MissingExtraError: Parquet needs pyarrow.
    """
    if path.suffix == ".parquet":
        return _parquet_records(path, skipped, used)
    is_table = path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv"))
    return _csv_records(path, skipped) if is_table else json_lines(path, skipped)


def _parquet_records(path: Path, skipped: SkippedRecords, used: Callable[[str], bool]) -> Iterator[dict[str, Any]]:
    pa, pq = imports.arrow()
    import pyarrow.types as kinds

    number = (kinds.is_floating, kinds.is_integer, kinds.is_boolean)
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogReadError(
            f"{path}: expected a Parquet table, found one that cannot be read ({clean(error)})"
        ) from None
    columns = [x.name for x in file.schema_arrow if used(x.name) or any(is_kind(x.type) for is_kind in number)]
    try:
        for batch in file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError):
        skipped.cut += 1


def _csv_records(path: Path, skipped: SkippedRecords) -> Iterator[dict[str, Any]]:
    import pandas as pd

    sep = "\t" if path.suffix.lower() == ".tsv" else ","
    with unpacked(path) as file:
        try:
            with pd.read_csv(file, sep=sep, chunksize=_ROWS, on_bad_lines="skip", encoding_errors="replace") as pieces:
                for piece in pieces:
                    yield from piece.to_dict("records")
        except pd.errors.EmptyDataError:
            raise LogReadError(f"{path}: expected a table with a header line, found nothing; check the file") from None
        except (pd.errors.ParserError, csv.Error, EOFError, zlib.error, OSError, ValueError):
            skipped.cut += 1


class RolloutFile(NamedTuple):
    """A file of a format, with the step that its name states (None where its records do), "train" or "eval"."""

    path: Path
    step: float | None = None
    split: str = "train"


@dataclass
class RolloutPath:
    """A folder, or a single file, of rollouts: the path given, looked at once for all formats."""

    root: Path

    @cached_property
    def files(self) -> dict[str, Path]:
        """Path below the root, with "/", → file; at most `_MOST` are looked at."""
        if self.root.is_file():
            return {"/".join(self.root.parts[-4:]): self.root}
        if not self.root.is_dir():
            raise LogReadError(f"{self.root}: expected a file or folder of rollouts, found none; check the path")
        found: dict[str, Path] = {}
        above = "/".join(self.root.resolve().parts[-2:])
        for folder, folders, names in os.walk(self.root):
            place = Path(folder)
            if len(place.relative_to(self.root).parts) >= _DEEPEST:
                folders.clear()
            folders[:] = sorted(x for x in folders if not x.startswith("."))
            for name in sorted(names):
                path = place / name
                if not name.startswith(".") and path.is_file():
                    found[f"{above}/{path.relative_to(self.root).as_posix()}"] = path
            if len(found) > _MOST:
                raise LogReadError(
                    f"{self.root}: expected at most {_MOST} files, found more; give the folder "
                    "of the rollouts themselves"
                )
        return found

    def named(self, pattern: str) -> list[tuple[Path, re.Match[str]]]:
        """Files whose path ends like a pattern, with the match."""
        ends = re.compile(rf"(?:^|/){pattern}$")
        found = ((path, ends.search(name)) for name, path in self.files.items())
        return [(path, match) for path, match in found if match]

    def split(self, path: Path) -> str:
        """The split of a file by its path below the root: "eval" or "train"."""
        return "eval" if _EVAL.search(path.relative_to(self.root).as_posix()) else "train"
