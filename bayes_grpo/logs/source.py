"""Files on disk → bytes and text."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean
from bayes_grpo.stores import tfrecord
from bayes_grpo.stores.companions import files_beside
from bayes_grpo.stores.sqlite_copy import MAGIC, columns_in

HEAD = 65_536
"""Characters that a reader looks at to recognise its format."""

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7z": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
_STORES = (MAGIC, b":W&B", b":SWL")
"""How the files of stores begin; event files of TensorBoard begin with a length and its checksum."""
_OTHERS = (
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x89HDF", "an HDF5 file"),
)


@dataclass(frozen=True)
class Source:
    """One file, read whole.

    Attributes:
        path: Where it lies.
        data: Its bytes.
        beside: Name → bytes of other files that belong to it, as a store's settings or its log of changes.
    """

    path: Path
    data: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """The file as text: UTF-8, or UTF-16 where it says so; undecodable bytes are replaced. A store has none.

        NUL bytes, which a network disk leaves where a write was lost, are left out.
        """
        if self.is_store:
            return ""
        if self.is_utf16:
            return self.data.decode("utf-16", errors="replace")
        return self.data.replace(b"\0", b"").decode("utf-8-sig", errors="replace")

    @cached_property
    def head(self) -> str:
        """The beginning of the text."""
        return self.text[:HEAD]

    @property
    def ending(self) -> Source | None:
        """The last lines of a long text, as if they were all: a training may come after other output. Else None."""
        if self.is_store or self.is_parquet or len(self.text) <= HEAD:
            return None
        return Source(self.path, self.text[-HEAD:].partition("\n")[2].encode())

    @property
    def is_utf16(self) -> bool:
        """Whether the file begins with the mark of UTF-16, as a redirect in PowerShell writes it."""
        return self.data[:2] in (b"\xff\xfe", b"\xfe\xff")

    @cached_property
    def nul_bytes(self) -> int:
        """NUL bytes in a text."""
        return 0 if self.is_store or self.is_parquet or self.is_utf16 else self.data.count(0)

    @property
    def is_parquet(self) -> bool:
        """Whether the file begins like Parquet."""
        return self.data[:4] == b"PAR1"

    @cached_property
    def is_store(self) -> bool:
        """Whether the file begins like that of a store."""
        return self.data.startswith(_STORES) or tfrecord.starts(self.data)

    @cached_property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """Table → names of its columns where the file is a database; nothing where it is none."""
        return columns_in(self.data, self.beside) if self.data.startswith(MAGIC) else {}

    def parts(self) -> Iterator[bytes]:
        """The bytes of all files that belong to it, in an order of their own."""
        yield self.data
        for name in sorted(self.beside):
            yield self.beside[name]


def load(path: Path) -> Source:
    """Reads a file.

    Raises:
        LogReadError: It is missing, unreadable, empty, compressed or not a log at all.
    """
    try:
        if path.is_char_device() or path.is_block_device():
            raise OSError(errno.EINVAL, "a device")
        data, beside = files_beside(path)
    except FileNotFoundError:
        raise LogReadError("expected a log file, found nothing there; check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LogReadError(f"expected a readable log file, found {clean(reason)}; check path and permissions") from None
    source = Source(path, data, beside)
    problem = None if source.is_parquet or source.is_store else _why_not_text(source)
    if problem:
        raise LogReadError(f"expected a log as text, as Parquet or of a store, found {problem}")
    return source


def _why_not_text(source: Source) -> str | None:
    data = source.data
    if not data.strip():
        return "an empty file; wait for the first logged row, or check the path"
    for magic, name in _COMPRESSED.items():
        if data.startswith(magic):
            return f"{name} data; decompress it first"
    for magic, name in _OTHERS:
        if data.startswith(magic):
            return f"{name}; export the run as CSV or JSONL first"
    if source.is_utf16 or not source.nul_bytes:
        return None
    kept = data[:HEAD].replace(b"\0", b"")
    control = sum(c < 32 and c not in b"\t\n\r\f\x08\x1b" for c in kept)
    lines = source.text.count("\n")
    if control or not lines or b"\n" not in kept[:HEAD] or _mostly_nul(data):
        return "binary data; export the run as CSV or JSONL first"
    return None


def _mostly_nul(data: bytes) -> bool:
    """Whether NUL bytes lie between the others, as in UTF-16 without its mark, and not in stretches."""
    pairs = sum(data[i] and not data[i + 1] for i in range(0, min(len(data), HEAD) - 1, 2))
    return pairs > 0.1 * min(len(data), HEAD) / 2
