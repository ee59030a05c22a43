"""Console text of a training, cleaned of what terminals add, with the progress bars read on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from bayes_grpo.logs.wording import ANSI

_BAR = re.compile(r"(\d{1,9})/(\d{1,9}) \[[^\]\n]{0,80}\]?")
_BAR_TEXT = re.compile(r"[^|\n]{0,80}?\d{1,3}%\|[^|\n]*\|\s*\d{1,9}/\d{1,9} \[[^\]\n]{0,80}\]?")
_PREFIX = re.compile(r"^\s*\([\w.]+ pid=\d+(?:, ip=[\d.:a-f]+)?\)\s?")


class Line(NamedTuple):
    """One line of console text.

    Attributes:
        text: The line without escape sequences, progress bars and the prefix Ray puts before it.
        bars: Progress bars on it, as (done, planned).
    """

    text: str
    bars: tuple[tuple[int, int], ...] = ()


def lines_of(text: str) -> Iterator[Line]:
    """Lines of console text; a carriage return ends a line too."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = _PREFIX.sub("", raw, count=1) if raw.lstrip()[:1] == "(" else raw
        if "%|" not in line:
            yield Line(line)
            continue
        bars = tuple((int(done), int(planned)) for done, planned in _BAR.findall(line))
        yield Line(_BAR_TEXT.sub("", line), bars)
