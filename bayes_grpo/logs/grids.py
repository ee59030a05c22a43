"""Tables inside HTML, Markdown and prose as text: names of columns and rows of cells.

The text is untrusted. Tables, rows and cells are found by plain search, so that no text costs more than its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import islice
from typing import NamedTuple

from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import names_reward
from bayes_grpo.logs.trainers import GENERIC

_TABLE = re.compile(r"<(/?)table\b", re.IGNORECASE)
_ROW = re.compile(r"<tr\b", re.IGNORECASE)
_TAG = re.compile(r"<(?:(/?)(td|th|tr)\b)?[^<>]{0,1000}>", re.IGNORECASE)
_CELL = re.compile(r"<t[dh]>([^<]*)", re.IGNORECASE)
_STRAY = re.compile(r"<(?!/?t[dhr]>)", re.IGNORECASE)
_PLANNED = re.compile(r"\[\s{0,3}\d{1,9}/(\d{1,9})\s")
"""Planned steps above a progress table, "[250/250 28:17, Epoch 0/1]"."""
COUNTERS = frozenset(key for group in GENERIC.steps for key in group if key != "batch") | {"epoch"}
"""Names of a column of steps; sizes of a batch stand below "batch" too."""
_QUALIFIED = re.compile(
    r"(?!(?:per|time|tokens?|seconds?|secs?|ms|each|max|total|cost|num|n|eval|val)_)[a-z]{1,20}_(?:steps?|iterations?|updates?)"
)
"""The name of a column of steps of some kind, "grpo_step"; what something is per step is no step."""
_MAX_ROW, _MAX_CELL, _MAX_ROWS, _MAX_COLUMNS = 20_000, 200, 200_000, 1_000
_BEFORE = 2_000
"""Characters above a table in which the planned steps stand."""
_BAR = re.compile("[|\u2502\u2503\u2506\u250a]")
_MISSES = 4
"""Lines that are no rows, such as rules and types, after which a table in prose has ended."""


def is_step_column(name: str) -> bool:
    """True if a column of a table has the name of one of steps."""
    known = normal(name)
    return known in COUNTERS | {"interval"} or _QUALIFIED.fullmatch(known) is not None


class Grid(NamedTuple):
    """A table as text: names of its columns, rows; the line above it, and planned steps where they stand there."""

    names: list[str]
    rows: list[list[str]]
    planned: float | None = None
    above: str = ""


def html_grids(text: str) -> Iterator[Grid]:
    """Tables in HTML, with the planned steps above them."""
    start = -1
    last = 0
    for tag in _TABLE.finditer(text):
        if not tag[1] and start < 0:
            start = tag.start()
        elif tag[1] and start >= 0:
            planned = _PLANNED.findall(text[max(last, start - _BEFORE) : start])
            names, *rows = [row for row in _rows(text[start : tag.start()]) if row] or [[]]
            yield Grid(names, rows, float(planned[-1]) or None if planned else None)
            start, last = -1, tag.end()


_PICTURES = re.compile("[\u2600-\u27bf\u2b50\U0001f300-\U0001faff\ufe0f]")


def _between_boxes(line: str) -> list[str]:
    """Cells between bars of any kind, Markdown's without its marks."""
    cells = _BAR.sub("|", line)[:_MAX_ROW].strip("# \t").strip("|").split("|") if _BAR.search(line) else ()
    return [_PICTURES.sub("", cell.replace("**", "")).strip().strip("*`")[:_MAX_CELL] for cell in cells]


_IN_WORDS = re.compile(r"(?:[\w@%. -]{1,40} / ){1,40}[\w@%. -]{1,40}(?=\)?\s?:?\s*\Z)")
_NUMBERS = re.compile(r"(?:\s{0,9}[-+\d.][\d.eE+-]{0,30}%?(?!\S)){1,40}")


def _below_words(line: str) -> list[str]:
    """Names that a line in words lists, "per step (step / reward / KL):", or the numbers that begin a line."""
    if " / " in line and (found := _IN_WORDS.search(line)) is not None:
        return [name.strip() for name in found[0].split(" / ")]
    return numbers[0].split() if (numbers := _NUMBERS.match(line)) is not None else line.split()


_SPLITS = (_between_boxes, lambda line: [cell.strip() for cell in re.split(r"[,\t;]", line)], _below_words)
"""How the cells of a line in a text are separated."""


def text_grids(text: str) -> Iterator[Grid]:
    """Tables with columns between bars, commas, tabs or spaces, below their names; a heading begins another table.

    The last row of a text that was cut off has its whole cells.
    """
    lines = [_without_tex(line) for line in text.rstrip().split("\n")[:_MAX_ROWS]]
    end = 0
    for i, line in enumerate(lines):
        if i < end or len(line) > _MAX_ROW or not (names_reward((line,)) or _BAR.search(line)):
            continue
        for split in _SPLITS:
            names = split(line.lstrip("# "))  # numpy writes the names of columns as a comment
            boxed = split is _between_boxes and len(names) > 1
            if not boxed and not _is_heading(names):
                continue
            rows: list[list[str]] = []
            for end, other in enumerate(lines[i + 1 :], i + 1):
                cells = split(other[:_MAX_ROW])
                if _is_heading(cells) or _begins_another(lines, end, i):
                    break
                if boxed and end == len(lines) - 1 and 1 < len(cells) < len(names):
                    ended = other.endswith("|") and rows[-1:] == [split(lines[end - 1])]  # between two cells
                    cells = cells if ended else cells[:-1]
                    cells += [""] * (len(names) - len(cells))
                wide = split is _below_words and len(cells) == len(names) + 1  # a data frame prints its index
                if len(cells) == len(names) + wide:
                    rows.append(cells[wide:])
                if end - i - len(rows) > _MISSES:
                    break
            if rows:
                before = lines[max(i - _MISSES, 0) : i]
                above = next((x for x in reversed(before) if x.strip()), "")
                planned = _PLANNED.findall("\n".join(x[:_MAX_CELL] for x in before))
                yield Grid(names, rows, float(planned[-1]) or None if planned else None, above[:_MAX_CELL])
                break
        else:
            end = i


def _without_tex(line: str) -> str:
    """A row of a table in LaTeX with bars between its cells."""
    row = line.rstrip().removesuffix(r"\hline").rstrip()
    return row.removesuffix(r"\\").replace("&", "|") if "&" in row and row.endswith(r"\\") else line


_RULE = re.compile(r"\s{0,3}\|?(?:\s{0,9}:?-{2,200}:?\s{0,9}\|){1,200}(?:\s{0,9}:?-{2,200}:?\s{0,9})?")
"""The line below the heading of a table in Markdown."""


def _begins_another(lines: Sequence[str], at: int, heading: int) -> bool:
    """True if a line is the heading of another table in Markdown than that below the heading at an earlier line."""
    if at - 1 <= heading or at + 1 == len(lines) or _BAR.search(lines[at - 1]) or not _BAR.search(lines[at]):
        return False
    return _RULE.fullmatch(lines[at + 1][:_MAX_ROW]) is not None


def _is_heading(cells: Sequence[str]) -> bool:
    """True if the columns of a table of metrics have such names: a step and a reward."""
    return names_reward(cells) and any(map(is_step_column, cells))


def _rows(table: str) -> Iterator[list[str]]:
    """The cells of each row, of bounded length and without other tags than those of cells."""
    starts = [x.start() for x in _ROW.finditer(table)][: _MAX_ROWS + 1]
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        row = _TAG.sub(lambda tag: f"<{tag[1]}{tag[2]}>" if tag[2] else "", table[start : min(end, start + _MAX_ROW)])
        cells = (x[1][:_MAX_CELL] for x in islice(_CELL.finditer(_STRAY.sub("&lt;", row)), _MAX_COLUMNS))
        yield [" ".join(unescape(cell).split()) for cell in cells]


_TITLE = re.compile(r"\s{0,3}(?:#{1,6}\s|\*\*|__)\s{0,3}(.{1,100}?)[*_:#\s]{0,9}")
"""A heading in Markdown, or a bold line."""


def title_of(grid: Grid) -> str:
    """The heading that stands right above a table; "" where there is none."""
    found = _TITLE.fullmatch(grid.above)
    return "" if found is None else found[1].replace("**", "")


def unrepeated(grid: Grid) -> Grid:
    """A table whose columns come again beside themselves, as one below the other."""
    names, n = grid.names, len(grid.names)
    for width in (w for w in range(2, n // 2 + 1) if n % w == 0 and names == names[:w] * (n // w)):
        rows = [row[at : at + width] for at in range(0, n, width) for row in grid.rows]
        return grid._replace(names=names[:width], rows=rows)
    return grid
