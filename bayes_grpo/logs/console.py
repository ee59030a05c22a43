"""Console text of a training, cleaned of what terminals add, and what its readers share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import ANSI, clean, counted
from bayes_grpo.logs.source import Source

_BAR = re.compile(r"(\d{1,9})/(\d{1,9}) \[[^\]\n]{0,80}\]?")
_BAR_TEXT = re.compile(r"[^|\n]{0,80}?\d{1,3}%\|[^|\n]{0,400}+\|\s{0,4}\d{1,9}/\d{1,9} \[[^\]\n]{0,80}\]?")
_REWARD = re.compile(r"reward|score|\br_mean", re.IGNORECASE)
_PREFIX = re.compile(r"^\s*\([\w.]+ pid=\d+(?:, ip=[\d.:a-f]+)?\)\s?")
MAX_LINE = 65_536
"""Characters of a line of console text; a longer one is no row of metrics, and is passed over with a note."""


class ConsoleLine(NamedTuple):
    """One line of console text.

    Attributes:
        text: The line without escape sequences, progress bars and the prefix Ray puts before it.
        bars: Progress bars on it, as (done, planned).
    """

    text: str
    bars: tuple[tuple[int, int], ...] = ()


def lines_of(text: str) -> Iterator[ConsoleLine]:
    """Lines of console text of at most `MAX_LINE` characters; a carriage return ends a line too."""
    for raw in _raw_lines(text):
        if len(raw) > MAX_LINE:
            continue
        line = _PREFIX.sub("", raw, count=1) if raw.lstrip()[:1] == "(" else raw
        if "%|" not in line:
            yield ConsoleLine(line)
            continue
        bars = tuple((int(done), int(planned)) for done, planned in _BAR.findall(line))
        yield ConsoleLine(_BAR_TEXT.sub("", line), bars)


def too_long(text: str, longest: int = MAX_LINE) -> tuple[str, ...]:
    """A note on the lines of console text that are longer than a reader looks at; nothing where there is none.

    Args:
        text: The text.
        longest: Characters of the longest line that is looked at.
    """
    if len(text) <= longest:
        return ()
    return long_lines([n for n, line in enumerate(_raw_lines(text), 1) if len(line) > longest], longest)


def long_lines(numbers: Sequence[int], longest: int) -> tuple[str, ...]:
    """A note on lines that were passed over because they are too long; nothing where there is none.

    Args:
        numbers: Their numbers in the file, from 1.
        longest: Characters of the longest line that is looked at.
    """
    if not numbers:
        return ()
    lines = counted(len(numbers), "line")
    return (f"{lines} of more than {longest:,} characters passed over, the first is line {numbers[0]}",)


def _raw_lines(text: str) -> list[str]:
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def names_reward(keys: Iterable[str]) -> bool:
    """Whether any of the names reads like a reward."""
    return any(_REWARD.search(key) for key in keys)


def usual(values: Iterable[float | None]) -> float | None:
    """The most frequent of the values that are there; None where there is none."""
    found = Counter(x for x in values if x).most_common(1)
    return found[0][0] if found else None


def nothing_found(expected: str, source: Source) -> LogReadError:
    """What to say where a reader that was asked for by name finds no row.

    Args:
        expected: What it looks for.
        source: The file.
    """
    return LogReadError(f"expected {expected}, found none; seen: {clean(source.head)!r}; choose another --format")
