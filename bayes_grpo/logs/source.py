"""Files on disk → bytes and text, and directories → the log inside them."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean, listed
from bayes_grpo.stores import tfrecord
from bayes_grpo.stores.companions import files_beside
from bayes_grpo.stores.sqlite_copy import MAGIC, columns_in

HEAD = 65_536
"""Characters that a reader looks at to recognise its format."""

METRIC_FILES = ("metrics.jsonl", "history.jsonl", "logging.jsonl", "experiment_log.jsonl")
"""Names that trainers give the metrics file of an output directory (Tinker, prime-rl; ART; ms-swift; EasyR1)."""

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7z": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
STATE_FILE = "trainer_state.json"
"""What transformers saves the rows of a training in."""

_GLOBAL_STEP = re.compile(rb'"global_step"\s*:\s*(\d{1,15})')
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,15})")
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
        """The file as text: UTF-8, or UTF-16 where it says so; undecodable bytes are replaced. A store has none."""
        if self.is_store:
            return ""
        if self.is_utf16:
            return self.data.decode("utf-16", errors="replace")
        return self.data.decode("utf-8-sig", errors="replace")

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
    if b"\x00" in data[:HEAD] and not source.is_utf16:
        return "binary data; export the run as CSV or JSONL first"
    return None


def find_logs(path: Path) -> list[Path]:
    """The log files that a path stands for, the most advanced first; a file stands for itself.

    A directory may be the output directory of a trainer, one of its checkpoints, or hold a single log.

    Raises:
        LogReadError: The directory holds no log, or several that are not told apart.
    """
    try:
        if not path.is_dir():
            return [path]
        entries = sorted(path.iterdir())
        states = {e / STATE_FILE: step for e in entries if (step := checkpoint_step(e.name)) is not None}
        states = {state: step for state, step in states.items() if state.is_file()}
        if (path / STATE_FILE).is_file():
            states = {path / STATE_FILE: _global_step(path / STATE_FILE), **states}
    except (OSError, ValueError) as error:
        raise LogReadError(
            f"{clean(path, 200)}: expected a readable directory, found {clean(error)}; check path and permissions"
        ) from None
    if states:
        return sorted(states, key=lambda state: states[state], reverse=True)
    named = [path / name for name in METRIC_FILES if (path / name).is_file()]
    logs = named or [e for e in entries if e.is_file() and e.suffix.lower() in (".jsonl", ".csv", ".parquet", ".log")]
    if len(logs) == 1:
        return logs
    names = [e.name for e in entries]
    if logs:
        raise LogReadError(
            f"{clean(path, 200)}: expected one log in the directory, found {listed(p.name for p in logs)}; "
            f"pass one of them"
        )
    raise LogReadError(
        f"{clean(path, 200)}: expected {STATE_FILE}, checkpoint-*/{STATE_FILE}, {' or '.join(METRIC_FILES)} "
        f"in the directory, found {listed(names)}; pass the log file itself"
    )


def checkpoint_step(name: str) -> int | None:
    """The step in the name of a checkpoint's folder, None where the folder is none."""
    found = _CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None


def is_output_directory(path: Path) -> bool:
    """Whether a directory is where a trainer wrote one run, by the names of its files."""
    if not path.is_dir():
        return False
    names = (STATE_FILE, *METRIC_FILES)
    return any((path / n).is_file() for n in names) or any(checkpoint_step(e.name) is not None for e in path.iterdir())


def _global_step(state: Path) -> float:
    """How far the training was when a state was saved; infinite where the file does not say so."""
    found = _GLOBAL_STEP.search(state.read_bytes())
    return int(found[1]) if found else math.inf


def run_name_of(path: Path) -> str:
    """A short name for a run: the file's, or its directory's where the file's says nothing."""
    path = path.absolute()
    name = path.stem if not path.is_dir() else path.name
    if path.name in (STATE_FILE, *METRIC_FILES):
        path = path.parent
        name = path.name
    if checkpoint_step(name) is not None:
        name = path.parent.name or name
    return clean(name) or "run"
