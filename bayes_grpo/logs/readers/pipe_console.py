"""Console lines with a step and named numbers: ``[tag]  3/100 | loss=-0.5 | reward=0.24 | acc=62%``.

Where a line counts epochs too, as in ``Epoch:[2/3](5/100), Reward: 0.24``, the step goes on from one to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from sys import intern
from typing import NamedTuple

from bayes_grpo.logs.console import lines_of, names_reward, nothing_found, too_long, usual
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, to_float

NAME = "console_pairs"

_WORD = r"(?:global[ _]step|training[ _]step|train[ _]step|step|iteration|iter|update)"
_STEP = re.compile(
    rf"(?<![\w/.]){_WORD}\s*+[:=#]?\s*+(\d{{1,12}})(?:\s*+/\s*+(\d{{1,12}}))?(?![\w/.]\d)", re.IGNORECASE
)
_COUNT = re.compile(r"(?<![\w/.:])(\d{1,12})\s*+/\s*+(\d{1,12})(?![\w/.])")
_EPOCH = re.compile(r"(?<![\w/.])epoch\s{0,4}[:=#]?\s{0,4}[\[(]?(\d{1,6})(?:\s?/\s?(\d{1,6}))?[\])]?,?", re.IGNORECASE)
_NUMBER = r"([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)%?)"
_PAIR = re.compile(
    r"(?<![\w/.@])([A-Za-z_][\w./@]{0,60}(?: [A-Za-z_][\w./@]{0,30}){0,2})\s?[=:]\s{0,4}"
    rf"{_NUMBER}(?![\w:])",
    re.IGNORECASE,
)
_BEFORE_NAME = 4
"""Characters that may stand before a name."""
_NAMED = re.compile(rf"\W{{0,{_BEFORE_NAME}}}([A-Za-z_][\w./@ ]{{0,60}}?)\s{{1,4}}{_NUMBER}\s*", re.IGNORECASE)
"""A whole segment "name number", as in "loss 0.3, reward 0.2"."""

_RUN_ON = re.compile(rf"(?:\s{{1,4}}[A-Za-z_][\w./@]{{0,60}}\s{{1,4}}{_NUMBER}){{1,40}}\s*", re.IGNORECASE)
"""All that is left of a line, "reward 0.3 loss 0.2", without anything between the pairs."""

_NAME_NUMBER = re.compile(rf"([A-Za-z_][\w./@]{{0,60}})\s{{1,4}}{_NUMBER}", re.IGNORECASE)
_SEPARATOR = re.compile(r"[|,;]|\s[-–—]\s")
_AFTER_STEP = re.compile(r"\A\s*+[\])}>]?\s*+(?:$|[|,:;\-–—]|[A-Za-z_][\w./@]*\s?[=:])")
"""What follows the step in a row of metrics, and rarely in prose."""

_MAX_LINE = 4_000
_MIN_LINES = 3


def sniff(source: Source) -> Evidence | None:
    """Recognises at least three lines that hold a step and a reward."""
    rows = sum(1 for row, _ in _rows(source.head) if names_reward(row))
    return Evidence(2, f"{rows} lines with a step and a reward", rows) if rows >= _MIN_LINES else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of all such lines; the step is ``i`` of ``i/N``, or the number after "step"."""
    found = list(_rows(source.text))
    if not found:
        raise nothing_found("lines such as '3/100 | reward=0.24'", source)
    steps, total = _counted([place for _, place in found])
    rows = ({**row, "step": step} for (row, _), step in zip(found, steps, strict=True))
    return Parsed(Table.from_rows(rows), total_steps=total, notes=too_long(source.text, _MAX_LINE))


def _counted(places: list[_Place]) -> tuple[list[float], float | None]:
    """Steps that go on from one epoch to the next, and how many are planned."""
    most = usual(p.steps for p in places)
    inside = any(p.inside for p in places)  # "Epoch:[1/3](5/100)"
    again = any(
        a.epoch is not None and b.epoch is not None and b.epoch > a.epoch and b.step < a.step
        for a, b in pairwise(places)
    )
    if not inside and not again:
        return [p.step for p in places], most
    epochs = [p.epoch for p in places if p.epoch is not None]
    each = most or max(p.step for p in places) + (min(p.step for p in places) == 0)
    first = 0.0 if min(epochs) == 0 else 1.0
    epochs_planned = usual(p.epochs for p in places)
    total = epochs_planned * each if epochs_planned and most else None
    return [p.step + (0.0 if p.epoch is None else (p.epoch - first) * each) for p in places], total


class _Place(NamedTuple):
    """Where in a training a line stands.

    Attributes:
        step: The step.
        steps: Planned steps, as the line says them.
        epoch: The epoch.
        epochs: Planned epochs.
        inside: Whether the step is written as one of the epoch's.
    """

    step: float
    steps: float | None
    epoch: float | None
    epochs: float | None
    inside: bool


def _rows(text: str) -> Iterator[tuple[dict[str, float], _Place]]:
    """Rows, and where they stand."""
    for line in lines_of(text):
        if len(line.text) > _MAX_LINE or line.text.lstrip()[:1] == "{":
            continue
        epoch = _EPOCH.search(line.text)
        # Counts of epochs are none of steps.
        step = _STEP.search(line.text) or _COUNT.search(line.text, epoch.end() if epoch else 0)
        if step is None or not _is_row(line.text[step.end() :]):
            continue
        inside = epoch is not None and line.text[epoch.end() : step.start()].strip() == "("
        start = epoch.start() if inside and epoch is not None else step.start()
        row = _numbers(line.text[:start]) | _numbers(line.text[step.end() :])
        if row:
            number, planned = step.groups()
            this, epochs = epoch.groups() if epoch else (None, None)
            yield (
                row,
                _Place(float(number), _count(planned), None if this is None else float(this), _count(epochs), inside),
            )


def _count(text: str | None) -> float | None:
    return float(text) or None if text else None


def _is_row(rest: str) -> bool:
    """Whether what follows the step is that of a row of metrics, and not of prose."""
    return _AFTER_STEP.match(rest) is not None or _RUN_ON.fullmatch(rest) is not None


def _numbers(text: str) -> dict[str, float]:
    row = {intern(key): to_float(value) for key, value in _PAIR.findall(text)}  # a name of a million rows is kept once
    for segment in _SEPARATOR.split(text):
        if "=" in segment[_BEFORE_NAME:] or ":" in segment[_BEFORE_NAME:]:
            continue  # neither pattern below can match it; nearly all segments end here
        if _RUN_ON.fullmatch(segment if segment[:1].isspace() else f" {segment}"):
            for name, value in _NAME_NUMBER.findall(segment):
                row.setdefault(name, to_float(value))
        named = _NAMED.fullmatch(segment)
        if named is not None:
            row.setdefault(named[1], to_float(named[2]))
    return row
