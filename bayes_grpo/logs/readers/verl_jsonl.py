"""verl's file logger: one ``{"step": …, "data": {…}}`` a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayes_grpo.logs.jsontext import parse_line
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.readers.jsonl import JsonLines, first_lines
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table

NAME = "verl_jsonl"


def sniff(source: Source) -> Evidence | None:
    """Recognises a first line with exactly the two keys."""
    lines = first_lines(source, 1)
    row = parse_line(lines[0]) if lines and lines[0].startswith("{") else None
    if isinstance(row, dict) and set(row) == {"step", "data"} and isinstance(row["data"], dict):
        return Evidence(3, 'lines {"step", "data"}')
    return None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of ``data``, each with its step."""
    lines = JsonLines(source.text)
    table = Table.from_rows(_unwrapped(lines))
    return Parsed(table, lines.config, notes=lines.notes())


def _unwrapped(rows: JsonLines) -> Iterator[dict[str, Any]]:
    for row in rows:
        data = row.get("data")
        if isinstance(data, dict):
            yield {**data, "step": row.get("step")}
        else:
            yield row
