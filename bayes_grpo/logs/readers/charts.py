"""Charts that a page draws from numbers in its text, as Mermaid's ``xychart-beta`` does: one chart, one column."""

from __future__ import annotations

import re

from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source
from bayes_grpo.logs.lines import names_reward, no_rows_error
from bayes_grpo.logs.table import Table, to_float

_CHART = re.compile(
    r"^[ \t]{0,20}xychart(?:-beta)?\b[^\n]*\n((?:(?![ \t]{0,20}```)[^\n]*+(?:\n|\Z)){1,60}+)", re.MULTILINE
)
_TITLE = re.compile(r"^[ \t]{0,20}title[ \t]{1,20}\"?([^\"\n]{1,120})", re.MULTILINE)
_AXIS = re.compile(r"^[ \t]{0,20}y-axis[ \t]{1,20}\"([^\"\n]{1,120})\"", re.MULTILINE)
_STEPS = re.compile(r"^[ \t]{0,20}x-axis[^\[\n]{0,120}\[([^\]\n]{1,4000})\]", re.MULTILINE)
_LINE = re.compile(r"^[ \t]{0,20}(?:line|bar)[^\[\n]{0,120}\[([^\]\n]{1,4000})\]", re.MULTILINE)
_OVER = re.compile(r"\s{0,4}(?:\([^()]{0,80}\)\s{0,4})?(?:(?:over|per|by|vs\.?|during)\s.*)?$", re.IGNORECASE)
"""The end of a title, "Average Batch Reward (Accuracy) Over Steps"."""
_DIGITS = re.compile(r"\d{1,12}(?:\.\d{1,3})?")


def _numbers(items: str) -> list[float]:
    return [to_float(item.strip().strip("\"'")) for item in items.split(",")]


def _steps(chart: str, n: int) -> list[float]:
    """The step of each value: the number in its label, else its place."""
    axis = _STEPS.search(chart)
    labels = [_DIGITS.findall(label) for label in axis[1].split(",")] if axis is not None else []
    if len(labels) == n and all(len(found) == 1 for found in labels):
        return [float(found[0]) for found in labels]
    return [float(i) for i in range(1, n + 1)]


def _columns(text: str) -> dict[str, dict[float, float]]:
    """Names of the lines of all charts, each with its values by step; lines of one chart are numbered."""
    found: dict[str, dict[float, float]] = {}
    for chart in _CHART.findall(text):
        titles = [match[1] for pattern in (_TITLE, _AXIS) if (match := pattern.search(chart)) is not None]
        name = next((title for title in titles if names_reward((title,))), titles[0] if titles else "line")
        name = _OVER.sub("", name)
        lines = [_numbers(items) for items in _LINE.findall(chart)]
        for i, values in enumerate(lines, 1):
            key = name if len(lines) == 1 else f"{name} line {i}"
            found.setdefault(key, dict(zip(_steps(chart, len(values)), values, strict=True)))
    return found


def _sniff(source: Source) -> Evidence | None:
    """Recognizes charts of which one is named as a reward."""
    found = _columns(source.head) if "xychart" in source.head else {}
    rewards = [name for name in found if names_reward((name,))]
    return Evidence(0, len(found[rewards[0]])) if rewards else None


def _read(source: Source, wanted: str | None) -> Parsed:
    """The lines of charts joined on their steps."""
    columns = _columns(source.text)
    if not columns:
        raise no_rows_error("charts of Mermaid such as 'xychart-beta' with a line [0.1, 0.2]", source)
    steps = sorted({step for values in columns.values() for step in values})
    rows = [{"step": s, **{k: values[s] for k, values in columns.items() if s in values}} for s in steps]
    return Parsed(Table.from_rows(rows), notes=(f"{counted(len(columns), 'line')} of charts: {listed(columns)}",))


READERS = (Reader("charts", _sniff, _read),)
