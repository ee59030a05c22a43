"""Console lines with a step and named numbers: ``[tag]  3/100 | loss=-0.5 | reward=0.24 | acc=62%``.

Where a line counts epochs too, as in ``Epoch:[2/3](5/100), Reward: 0.24``, the step goes on from one to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs.console import lines_of
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.wording import clean

NAME = "console_pairs"

_WORD = r"(?:global[ _]step|training[ _]step|train[ _]step|step|iteration|iter|update)"
_STEP = re.compile(
    rf"(?<![\w/.]){_WORD}\s*[:=#]?\s*(\d{{1,12}})(?:\s*/\s*(\d{{1,12}}))?(?![\w/.]\d)"
    r"|(?<![\w/.:])(\d{1,12})\s*/\s*(\d{1,12})(?![\w/.])",
    re.IGNORECASE,
)
_EPOCH = re.compile(
    r"epoch\s{0,4}:?\s{0,4}[\[(]?(\d{1,6})/(\d{1,6})[\])]?,?\s{0,4}[\[(](\d{1,12})/(\d{1,12})[\])]", re.IGNORECASE
)
_NUMBER = r"([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)%?)"
_PAIR = re.compile(
    r"(?<![\w/.@])([A-Za-z_][\w./@]{0,60}(?: [A-Za-z_][\w./@]{0,30}){0,2})\s?[=:]\s{0,4}"
    rf"{_NUMBER}(?![\w:])",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"\W{{0,4}}([A-Za-z_][\w./@ ]{{0,60}}?)\s{{1,4}}{_NUMBER}\s*", re.IGNORECASE)
"""A whole segment "name number", as in "loss 0.3, reward 0.2"."""

_SEPARATOR = re.compile(r"[|,;]")
_AFTER_STEP = re.compile(r"\s*[\])}>]?\s*(?:$|[|,:;\-–—]|[A-Za-z_][\w./@]*\s?[=:])")
"""What follows the step in a row of metrics, and rarely in prose."""

_REWARD = re.compile(r"reward|score|\br_mean", re.IGNORECASE)
_MAX_LINE = 4_000
_MIN_LINES = 3


def sniff(source: Source) -> Evidence | None:
    """Recognises at least three lines that hold a step and a reward."""
    rows = sum(1 for row, _ in _rows(source.head) if any(_REWARD.search(key) for key in row))
    return Evidence(2, f"{rows} lines with a step and a reward", rows) if rows >= _MIN_LINES else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of all such lines; the step is ``i`` of ``i/N``, or the number after "step"."""
    rows = []
    totals: dict[float, int] = {}
    for row, total in _rows(source.text):
        rows.append(row)
        if total is not None:
            totals[total] = totals.get(total, 0) + 1
    if not rows:
        raise LogReadError(
            f"expected lines such as '3/100 | reward=0.24', found none; seen: {clean(source.head)!r}; "
            f"choose another --format"
        )
    return Parsed(Table.from_rows(rows), total_steps=max(totals, key=lambda n: totals[n]) if totals else None)


def _rows(text: str) -> Iterator[tuple[dict[str, float], float | None]]:
    """Rows, and the planned number of steps where their lines have it."""
    for line in lines_of(text):
        if len(line.text) > _MAX_LINE or line.text.lstrip()[:1] == "{":
            continue
        epoch = _EPOCH.search(line.text)
        found = epoch or _STEP.search(line.text)
        if found is None or not _AFTER_STEP.match(line.text, found.end()):
            continue
        row = _numbers(line.text[: found.start()]) | _numbers(line.text[found.end() :])
        if row:
            step, total = _in_epochs(epoch) if epoch else (found[1] or found[3], found[2] or found[4])
            yield {**row, "step": float(step)}, float(total) if total else None


def _in_epochs(found: re.Match[str]) -> tuple[float, float]:
    """Step and planned steps over all epochs."""
    epoch, epochs, step, steps = (float(x) for x in found.groups())
    return (epoch - 1.0) * steps + step, epochs * steps


def _numbers(text: str) -> dict[str, float]:
    row = {key: to_float(value) for key, value in _PAIR.findall(text)}
    for segment in _SEPARATOR.split(text):
        named = _NAMED.fullmatch(segment)
        if named is not None:
            row.setdefault(named[1], to_float(named[2]))
    return row
