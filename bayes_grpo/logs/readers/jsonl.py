"""One JSON object a line: Tinker, prime-rl, ART and most scripts. Lines of one step are merged later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import counted
from bayes_grpo.logs.console import long_lines
from bayes_grpo.logs.jsontext import config_in, config_line, parse_line
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.progress import StepCounter
from bayes_grpo.logs.rowkinds import told_apart
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table

NAME = "jsonl"

_BATCH = 1024
_MAX_LINE = 4_000_000
"""Characters of a line; a record of metrics has thousands, one with the texts of a batch a million."""


def sniff(source: Source) -> Evidence | None:
    """Recognises a first line that is an object by itself, with another below it."""
    lines = first_lines(source)
    if not lines or not lines[0].startswith("{") or not isinstance(parse_line(lines[0]), dict):
        return None
    if len(lines) == 1:
        return Evidence(1, "one JSON object on one line")
    return Evidence(2, "JSON objects, one a line") if lines[1].startswith("{") else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of all lines that parse; the others are counted in a note."""
    lines = JsonLines(source.text)
    rows = StepCounter(lines)
    table = Table.from_rows(rows)
    return Parsed(table, lines.config, total_steps=rows.planned, notes=lines.notes())


def first_lines(source: Source, count: int = 2) -> list[str]:
    """The first lines with something on them."""
    return [line.strip() for line in source.head.splitlines() if line.strip()][:count]


class JsonLines:
    """Iterates over the objects of a text, one a line, and counts the lines that are none.

    Attributes:
        config: Scalars of the lines that hold settings instead of metrics; later lines win.
    """

    def __init__(self, text: str) -> None:
        self.config: dict[str, Any] = {}
        self._text = text
        self._good = 0
        self._settings = 0
        self._began = False
        self._bad: list[int] = []
        self._long: list[int] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        lines = self._text.split("\n")
        for start in range(0, len(lines), _BATCH):
            batch = lines[start : start + _BATCH]
            for place, line in enumerate(batch):
                if len(line) > _MAX_LINE:
                    self._long.append(start + place + 1)
                    batch[place] = ""
            rows = _all_at_once(batch)
            if rows is not None:
                self._good += len(rows)
                yield from self._metrics(rows)
            else:
                yield from self._one_by_one(batch, start + 1)

    def _one_by_one(self, lines: list[str], first: int) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(lines, first):
            if not line or line.isspace():
                continue
            row = parse_line(line)
            if isinstance(row, dict):
                self._good += 1
                yield from self._metrics([row])
            else:
                self._bad.append(number)

    def _metrics(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            config = config_in(row)
            if config is None and not self._began:
                config = config_line(row)
            if config is None:
                self._began = True
                yield told_apart(row)
            else:
                self.config |= config
                self._settings += 1

    def notes(self) -> tuple[str, ...]:
        """What was left out or taken for settings.

        Raises:
            LogReadError: Most lines are no JSON objects.
        """
        if len(self._bad) > self._good:
            raise LogReadError(
                f"expected one JSON object a line, found {len(self._bad)} lines of "
                f"{len(self._bad) + self._good} that are none, the first at line {self._bad[0]}; "
                f"repair the file or pass another"
            )
        said = [f"{counted(self._settings, 'line')} of settings instead of metrics"] if self._settings else []
        if self._bad:
            bad = counted(len(self._bad), "line")
            said.append(f"{bad} without a JSON object left out, the first is line {self._bad[0]}")
        return (*said, *long_lines(self._long, _MAX_LINE))


def _all_at_once(lines: list[str]) -> list[dict[str, Any]] | None:
    """The objects of lines that hold exactly one each, parsed as one list for speed; else None."""
    rows = parse_line("[" + ",".join(lines) + "]")
    if isinstance(rows, list) and len(rows) == len(lines) and all(type(row) is dict for row in rows):
        return rows
    return None
