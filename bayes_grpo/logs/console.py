"""Console text of a training, cleaned of what terminals add, and what its readers share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import ANSI, clean
from bayes_grpo.logs.source import Source

_BAR = re.compile(r"(\d{1,9})/(\d{1,9}) \[[^\]\n]{0,80}\]?")
_BAR_TEXT = re.compile(r"[^|\n]{0,80}?\d{1,3}%\|[^|\n]*\|\s*\d{1,9}/\d{1,9} \[[^\]\n]{0,80}\]?")
_REWARD = re.compile(r"reward|score|\br_mean", re.IGNORECASE)
_PREFIX = re.compile(r"^\s*\([\w.]+ pid=\d+(?:, ip=[\d.:a-f]+)?\)\s?")


class ConsoleLine(NamedTuple):
    """One line of console text.

    Attributes:
        text: The line without escape sequences, progress bars and the prefix Ray puts before it.
        bars: Progress bars on it, as (done, planned).
    """

    text: str
    bars: tuple[tuple[int, int], ...] = ()


def lines_of(text: str) -> Iterator[ConsoleLine]:
    """Lines of console text; a carriage return ends a line too."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = _PREFIX.sub("", raw, count=1) if raw.lstrip()[:1] == "(" else raw
        if "%|" not in line:
            yield ConsoleLine(line)
            continue
        bars = tuple((int(done), int(planned)) for done, planned in _BAR.findall(line))
        yield ConsoleLine(_BAR_TEXT.sub("", line), bars)


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
