"""JSON lines of any size read one by one: what is cut, damaged or too long is counted and left out."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import LogReadError

LONGEST_LINE = 64 * 2**20
"""Bytes of a line that is still read: a completion of a million tokens has about 4 MB."""
_PIECE = 2**20
_decode = json.JSONDecoder().decode


@dataclass
class LeftOut:
    """What could not be read, counted while reading.

    Attributes:
        lines: Lines that are no JSON object.
        cut: Files whose last line, or whose compressed data, breaks off.
        long: Lines over `LONGEST_LINE`.
        records: Records without a reward or a step.
    """

    lines: int = 0
    cut: int = 0
    long: int = 0
    records: int = 0

    def notes(self) -> tuple[str, ...]:
        """The same in words."""
        said = (
            (self.lines, "damaged line{} left out"),
            (self.cut, "file{} cut off at the end"),
            (self.long, f"line{{}} over {LONGEST_LINE >> 20} MB left out"),
            (self.records, "record{} without a reward or a step left out"),
        )
        return tuple(f"{n} {words.format('s' * (n > 1))}" for n, words in said if n)


def unpacked(path: Path) -> BufferedReader[FileIO] | gzip.GzipFile:
    """A file's bytes, unpacked where it is gzip.

    Raises:
        LogReadError: It cannot be unpacked.
    """
    try:
        file = BufferedReader(FileIO(path), _PIECE)
        packed = file.peek(2)[:2] == b"\x1f\x8b"
    except OSError as error:
        raise LogReadError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    return gzip.GzipFile(fileobj=file) if packed else file


def json_lines(path: Path, damage: LeftOut) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines.

    Args:
        path: The file, also gzip.
        damage: Counts what is left out.

    Yields:
        One object a line.

    Raises:
        LogReadError: The file cannot be unpacked.
    """
    with unpacked(path) as file:
        try:
            while line := file.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    damage.long += 1
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
                    damage.lines += 1
                else:
                    damage.cut += 1
        except (EOFError, zlib.error, OSError):
            damage.cut += 1
