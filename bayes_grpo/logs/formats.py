"""Files as bytes and text, and what a reader of a format gets and hands over."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.text import clean, counted, listed
from bayes_grpo.logs.keyindex import table_of_rows
from bayes_grpo.logs.options import one_prompt, settings_of_groups
from bayes_grpo.logs.settings import Setting
from bayes_grpo.logs.table import Table, to_float, to_floats
from bayes_grpo.logs.trainer import Trainer
from bayes_grpo.stores.files import MAGIC, opened, with_attached

HEAD = 65_536
"""Characters that a reader looks at to recognize its format."""
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7z": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_BINARY = {b"\x80\x02": "a Python pickle", b"\x80\x04": "a Python pickle", b"\x89HDF": "an HDF5 file"}
"""How files begin that are no logs → what they are."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""How text begins that a redirect in PowerShell wrote."""
_ODD, _MOST_ODD = re.compile("[\x01-\x07\x0e-\x1a\x1c-\x1f\x7f\ufffd]"), 0.1
"""Characters of control, or bytes that are none, and the share of them up to which a file is a text."""
PARQUET = b"PAR1"
_STORES = (MAGIC, b":W&B", PARQUET)
"""How files begin that are no text; event files of TensorBoard begin with a length and its checksum."""

_MANGLED = re.compile("(?:â.|Â)[\x80-\xbf\u0152-\u2122]")
"""One sign, such as "±" and "│", whose bytes were read as Windows-1252 and then written as UTF-8."""


def _unmangled(found: re.Match[str]) -> str:
    with suppress(UnicodeError):
        return bytes(ord(c) if ord(c) < 256 else c.encode("cp1252")[0] for c in found[0]).decode()
    return found[0]


_ESCAPED = re.compile(r"(?<!\\)\\_")
"""An underscore as Markdown writes it, which JSON cannot hold."""
_CITED = re.compile("^(?:> ){1,9}", re.MULTILINE)
_QUOTES = {"‘": "'", "’": "'", "“": '"', "”": '"', "&#39;": "'", "&#x27;": "'", "&quot;": '"'}
_TYPESET = re.compile("|".join(_QUOTES))
_IS_NUMBER = r"\s?:\s?[-\d]"


def _as_written(text: str) -> str:
    """Text as it was before a reply cited it, or a page changed the signs of its keys or the bytes of its signs."""
    if "â" in text or "Â" in text:
        text = _MANGLED.sub(_unmangled, text)
    text = _ESCAPED.sub("_", text) if "\\_" in text else text
    text = text.replace("\u00a0", " ")
    if text.startswith("> ") or "\n> " in text:
        text = _CITED.sub("", text)
    changed = any(quote in text for quote in _QUOTES) and re.search(f"(?:{_TYPESET.pattern}){_IS_NUMBER}", text)
    if changed and not re.search(f"['\"]{_IS_NUMBER}", text):
        text = _TYPESET.sub(lambda found: _QUOTES[found[0]], text)
    return text


_IN_MARGIN = re.compile(r'[ \t]{0,8}[|+]?[ \t]{0,40}(["{}\[\]][^\n]*?)?[ \t|]{0,9}')
"""A line of JSON as a page that shows files, or the difference of two, prints it; or an empty one of these."""
_COMMENT = re.compile(r"^[ \t]{0,40}# ?", re.MULTILINE)
"""Beginning of a line of a comment in a program."""
MOSTLY = 0.8


def _without_margin(text: str) -> str:
    """Text without what stands round each line in a comment, in a page that shows files, or in a difference of two."""
    start = text.lstrip()
    lines = [line for line in text.splitlines() if line.strip()]
    if start.startswith("# ") and "': " in text:
        commented = sum(line.lstrip().startswith("#") for line in lines)
        return _COMMENT.sub("", text) if commented >= MOSTLY * len(lines) else text
    if not start.startswith(("|", "+", "diff --git ")):
        return text
    found = [m[1] or "" for m in map(_IN_MARGIN.fullmatch, lines) if m is not None]
    return "\n".join(found) if len(found) >= MOSTLY * len(lines) else text


@dataclass(frozen=True)
class Source:
    """One file, read whole.

    ``attached`` are the bytes of files that belong to it, by their names, of a database by their ends: a log of
    changes, metrics of a run.
    """

    path: Path
    data: bytes
    attached: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def content(self) -> tuple[bytes, ...]:
        """Its bytes and those of the files that belong to it, in the order of their names."""
        return (self.data, *(data for _, data in sorted(self.attached.items())))

    @cached_property
    def text(self) -> str:
        """The file as text; undecodable bytes are replaced, NUL bytes, which a disk leaves, left out. "" of a store."""
        if self.is_store:
            return ""
        if self.data.startswith(_UTF_16):
            return self.data.decode("utf-16", errors="ignore").replace("\0", "")  # the last may be half a character
        text = self.data.replace(b"\0", b"").decode("utf-8-sig", errors="replace")
        return _without_margin(_as_written(text))

    @cached_property
    def head(self) -> str:
        """The beginning of the text."""
        return self.text[:HEAD]

    @cached_property
    def nul_bytes(self) -> int:
        """NUL bytes that were left out of the text."""
        return 0 if self.is_store or self.data.startswith(_UTF_16) else self.data.count(0)

    @cached_property
    def is_store(self) -> bool:
        """True if the file begins like that of a store."""
        from bayes_grpo.stores.records import starts_record

        return self.data.startswith(_STORES) or (0 in self.data[:8] and starts_record(self.data))

    @cached_property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """Table → names of its columns where the file is a database; nothing where it is none."""
        with suppress(LogReadError):
            if self.data.startswith(MAGIC):
                with opened(self.data, self.attached) as tables:
                    return tables.columns
        return {}


def load(path: Path) -> Source:
    """Reads a file; one that is missing, unreadable, empty, compressed or not a log at all is an error."""
    try:
        if path.is_char_device() or path.is_block_device():
            raise OSError(errno.EINVAL, "a device")
        source = Source(path, *with_attached(path))
    except FileNotFoundError:
        raise LogReadError("expected a log file, found nothing there; check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LogReadError(f"expected a readable log file, found {clean(reason)}; check path and permissions") from None
    if not source.is_store and (problem := _why_not_text(source)):
        raise LogReadError(f"expected a log as text, as Parquet or of a store, found {problem}")
    return source


def _why_not_text(source: Source) -> str | None:
    data = source.data
    if not source.text.strip() and not source.nul_bytes:
        return "an empty file; wait for the first logged row, or check the path"
    if kind := next((kind for magic, kind in _COMPRESSED.items() if data.startswith(magic)), ""):
        return f"{kind} data; decompress it first"
    kind = next((kind for magic, kind in _BINARY.items() if data.startswith(magic)), "")
    if source.nul_bytes and not kind:
        kept = data[:HEAD].replace(b"\0", b"")
        control = any(c < 32 and c not in b"\t\n\r\f\x08\x1b" for c in kept)
        # NUL bytes between the others are those of UTF-16 without its mark; a disk leaves them in stretches.
        between = sum(c and not after for c, after in zip(data[:HEAD:2], data[1:HEAD:2], strict=False))
        kind = "binary data" if control or b"\n" not in kept or between > 0.1 * min(len(data), HEAD) / 2 else ""
    odd = len(_ODD.findall(source.head))
    kind = kind or ("binary data" if odd > _MOST_ODD * len(source.head) else "")
    return f"{kind}; export the run as CSV or JSONL first" if kind else None


class Evidence(NamedTuple):
    """Why a file may be of a format: 3 for a mark that only it has, 2 for its shape, 1 for a bare possibility.

    ``rows`` are counted in the head of the file, where several readers of console text compete.
    """

    strength: int
    rows: int = 0


NO_REWARDS = Evidence(-1)
"""Of rows of a known trainer without a reward, whose refusal says what they hold."""


@dataclass(frozen=True)
class Parsed:
    """Rows as logged, before anything is decided about them.

    Attributes:
        table: Rows in file order under the trainer's keys.
        config: Scalars that the file keeps with its rows.
        total_steps: Planned steps, where the file states them.
        logging_steps: Optimizer steps a row averages, where the file states them.
        trainer: The trainer, where the format tells.
        notes: What the reader did.
        settings: Settings from the trainer's arguments.
        run_name: Name of the run, where the file states it.
        starts: Rows at which the reader has seen another training begin.
        took_run: Whether it took the run that was named, where a file has several by chance.
    """

    table: Table
    config: Mapping[str, Any] = field(default_factory=dict)
    total_steps: float | None = None
    logging_steps: float | None = None
    trainer: Trainer | None = None
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict)
    run_name: str = ""
    starts: tuple[int, ...] = ()
    took_run: bool = False

    def noted(self, *notes: str) -> Parsed:
        """The same with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def followed_by(self, other: Parsed) -> Parsed:
        """The rows of one file followed by those of another of the same run."""
        return Parsed(
            self.table.appended(other.table),
            {**self.config, **other.config},
            other.total_steps or self.total_steps,
            other.logging_steps or self.logging_steps,
            self.trainer if self.trainer is other.trainer else None,
            tuple(dict.fromkeys((*self.notes, *other.notes))),
            {**self.settings, **other.settings},
            self.run_name or other.run_name,
        )


NO_ROWS = Parsed(Table.from_rows(()))
_STEP_KEYS = ("global_step/max_steps", "iteration", "step", "global_step")
"""Keys under which steps are written as text; the first is that of ms-swift."""
_PAIR = re.compile(r"\A\s*+(\d{1,15})\s*+/\s*+(\d{1,15})\s*+")
_REWARDS = ("rewards", "reward")
"""Keys under which scripts write the rewards of all completions of a row."""
_READS_LIKE = re.compile(r"(?<!format_)(?:rewards|scores|returns)$", re.IGNORECASE)
"""Other names of such a list, where its mean stands beside it."""
_MEAN_OF = re.compile(r"^(?!.*(?:std|best|max|min)).*(?:reward|score|return)", re.IGNORECASE)
_ROUNDED = 1e-3
"""By how much a logged mean may differ from that of the logged list."""
_ONE_TASK = ("task", "scenario")
"""Keys that name the prompt of a row whose list of rewards has its mean beside it."""


def _list_with_mean(row: Mapping[str, Any]) -> str | None:
    """The key of a list of rewards of which a row has the mean under another key; None where there is none."""
    for key in (k for k, v in row.items() if type(v) is list and k not in _REWARDS and _READS_LIKE.search(str(k))):
        numbers = _all_numbers(row[key])
        others = (to_float(v) for k, v in row.items() if k != key and _MEAN_OF.search(str(k)))
        if len(numbers) > 1 and any(abs(x - numbers.mean()) < _ROUNDED for x in others):
            return key
    return None


def _all_numbers(value: Any) -> np.ndarray:
    """The numbers of a list, or of the lists in it, as of the prompts of a row; empty where one is none, shape (n,)."""
    if type(value) is not list or not value:
        return np.empty(0)
    nested = all(type(x) is list for x in value)
    numbers = to_floats([x for part in value for x in part] if nested else value)
    return numbers if np.isfinite(numbers).all() else np.empty(0)


def parsed_rows(rows: Iterable[Any], **more: Any) -> Parsed:
    """Records as rows: those of an evaluation marked, a list of rewards as its mean, "5/300" as step 5 of 300 planned.

    What is no record is left out with a note.
    """
    planned = 0.0
    lists = with_mean = other = 0
    groups: set[tuple[int, str]] = set()  # completions of a row, and the key of its one prompt

    def numbered() -> Iterator[Mapping[str, Any]]:
        nonlocal planned, lists, with_mean, other
        for row in rows:
            if not isinstance(row, Mapping):
                other += 1
                continue
            for key in _REWARDS:
                if len(numbers := _all_numbers(row.get(key))):
                    groups.add((len(numbers), one_prompt(row)))
                    row = {**row, key: float(numbers.mean()), "reward/std": float(numbers.std())}
                    lists += 1
            if (key := _list_with_mean(row)) is not None:
                numbers = _all_numbers(row[key])
                groups.add((len(numbers), one_prompt(row, _ONE_TASK)))
                row = {**{k: v for k, v in row.items() if k != key}, "reward/std": float(numbers.std())}
                with_mean += 1
            for key in _STEP_KEYS:
                if type(row.get(key)) is str and (pair := _PAIR.fullmatch(row[key])):
                    row = {**row, key: float(pair[1])}
                    planned = float(pair[2])
            yield row

    table = table_of_rows(numbered())
    notes = (
        (lists, f"{counted(lists, 'list')} of rewards, of which the mean is taken"),
        (with_mean, f"{counted(with_mean, 'list')} of rewards with their mean, of which the spread is taken"),
        (other, f"{other} entries that are not records left out"),
    )
    parsed = replace(Parsed(table, total_steps=planned or None, settings=settings_of_groups(groups)), **more)
    return parsed.noted(*(note for times, note in notes if times))


class RunName(NamedTuple):
    """How a run of a store is called: its name, which several may share, and an id, which only this run has."""

    name: str
    id: str


@dataclass(frozen=True)
class Reader:
    """One log format; a module of `bayes_grpo.logs.readers` lists its own in ``READERS``.

    Attributes:
        name: Name of the format.
        sniff: Evidence that a file has this format, None where it has not.
        read: Rows of the file, or of the run in it that is called so; raises `LogReadError` where it is broken.
        runs: The runs in a file or in its beginning, in the order in which they began, where it may hold several.
        takes_run: Whether it takes one of several runs by its name itself.
        other_tables: What it saw in a file that holds no series of rewards, in words, for the refusal.
        last: Whether it is asked where no other reader has found a reward.
    """

    name: str
    sniff: Callable[[Source], Evidence | None]
    read: Callable[[Source, str | None], Parsed]
    runs: Callable[[Source], list[RunName]] | None = None
    takes_run: bool = False
    other_tables: Callable[[Source], list[str]] | None = None
    last: bool = False


def main_run(rows: Mapping[str, int]) -> str | None:
    """Of several runs by their number of rows the one that has ten times those of any other; None without one."""
    *others, (most, name) = sorted((n, name) for name, n in rows.items())
    return name if all(most >= 10 * n for n, _ in others) else None


_LETTER = re.compile("[^\\W\\d_]")


def chosen_run[T](runs: Sequence[T], wanted: str | None) -> T:
    """The one among runs, or names, whose name or id is or begins with a text, or ends with it behind its place.

    None means the only one.
    """
    names: list[Any] = [RunName(r, r) if isinstance(r, str) else r for r in runs]
    texts = [r.name if r.name == r.id or not r.id else f"{r.name} ({r.id})" for r in names]  # the id where it says more
    fitting = list(range(len(names)))
    called = ""
    if wanted is not None:
        same_id = [i for i in fitting if names[i].id == wanted]
        same_name = [i for i in fitting if names[i].name == wanted]
        begin = [i for i in fitting if names[i].id.startswith(wanted) or names[i].name.startswith(wanted)]
        end = [i for i in fitting if _LETTER.search(wanted) and re.split("[./]", names[i].name)[-1] == wanted]
        fitting = same_id or same_name or begin or end
        called = f" called {clean(wanted)!r}"
    if not fitting:
        text = f"expected a run among {listed(texts)}, found {clean(wanted)!r}; correct it"
        raise LogReadError(text, parameter="run")
    if len(fitting) > 1:
        found = f"{len(fitting)}{called}: {listed([texts[i] for i in fitting])}"
        how = Argument("run") if called else Argument("run", "NAME")
        more = " and more of its name or id" if called else ""
        raise LogReadError(f"expected one run, found {found}; choose with {MENDING}{more}", mended_by=how)
    return runs[fitting[0]]
