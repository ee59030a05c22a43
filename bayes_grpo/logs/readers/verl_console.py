"""verl's console lines: ``step:N - key:value - key:value``, maybe behind Ray's prefix or a progress bar."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayes_grpo.logs.console import lines_of, too_long
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, to_float

NAME = "verl_console"

_STEP = re.compile(r"(?<![\w/.])step:(\d{1,12}) - (?=\S)")
_REPEATED = re.compile(r"\[repeated \d{1,9}x across cluster\]")
"""What Ray puts behind a line that several processes print."""


def sniff(source: Source) -> Evidence | None:
    """Recognises lines that begin the way verl prints its metrics."""
    rows = sum(1 for _ in _STEP.finditer(source.head))
    return Evidence(3, f"{rows} lines 'step:N - key:value'", rows) if rows else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of all such lines."""
    return Parsed(Table.from_rows(_rows(source.text)), notes=too_long(source.text))


def _rows(text: str) -> Iterator[dict[str, float]]:
    for line in lines_of(text):
        if (found := _STEP.search(line.text)) is None:
            continue
        row = {"step": float(found[1])}
        for part in _REPEATED.split(line.text[found.end() :], maxsplit=1)[0].split(" - "):
            key, colon, value = part.rpartition(":")
            if colon and key:
                row[key.strip()] = to_float(value)
        yield row
