"""Tables of metrics inside HTML and Markdown: the progress table of transformers in a notebook, a page made of one.

The text is a stranger's. Tables are found by plain search, and `html.parser` of the standard library gets one row at a
time, of bounded length and with no other tags than those of rows and cells, so that no text costs more than its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.wording import counted
from bayes_grpo.logs.console import names_reward
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.table import Table, to_floats

_TABLE = re.compile(r"<(/?)table\b", re.IGNORECASE)
_ROW = re.compile(r"<tr\b", re.IGNORECASE)
_TAG = re.compile(r"<(?:(/?)(td|th|tr)\b)?[^<>]{0,1000}>", re.IGNORECASE)
_STRAY = re.compile(r"<(?!/?t[dhr]>)", re.IGNORECASE)
_PLANNED = re.compile(r"\[\s{0,3}(\d{1,9})/(\d{1,9})\s")
"""Steps done and planned above a progress table, "[250/250 28:17, Epoch 0/1]"."""
_RULE = re.compile(r":?-++:?")
"""A cell of the line below a heading."""
_STEPS = frozenset(
    ("step", "steps", "global_step", "training_step", "train/global_step", "iteration", "iter", "update", "epoch")
)
_MAX_ROW, _MAX_CELL, _MAX_ROWS, _MAX_COLUMNS = 20_000, 200, 200_000, 1_000
_BEFORE = 2_000
"""Characters above a table in which the planned steps stand."""
_LEAST = 2


class MarkedTable(NamedTuple):
    """A table of metrics.

    Attributes:
        columns: Heading → cells as numbers, each of shape (n,).
        planned: Planned steps that stand above it, None without.
        place: What it is called in its file.
    """

    columns: dict[str, np.ndarray]
    planned: float | None
    place: str

    @property
    def step(self) -> np.ndarray:
        """Its steps, shape (n,)."""
        return next(v for k, v in self.columns.items() if normal(k) in _STEPS)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.step)

    def table(self) -> Table:
        """Its rows under their headings."""
        return Table.from_columns(self.columns)


class _Cells(HTMLParser):
    """The cells of one row; whether any of them is a heading."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.cells: list[str] = []
        self.heading = False
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("td", "th") and len(self.cells) < _MAX_COLUMNS:
            self.heading |= tag == "th"
            self._open = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag not in ("td", "th", "tr")

    def handle_data(self, data: str) -> None:
        if self._open and len(self.cells[-1]) < _MAX_CELL:
            self.cells[-1] += data[:_MAX_CELL]


def html_tables(text: str, place: str = "table") -> list[MarkedTable]:
    """The tables of metrics in HTML, or in text that holds HTML, in their order."""
    found, start, last = [], -1, 0
    for tag in _TABLE.finditer(text):
        if not tag[1] and start < 0:
            start = tag.start()
        elif tag[1] and start >= 0:
            above = text[max(last, start - _BEFORE) : start]
            found.append(_metrics(map(_cells, _rows(text[start : tag.start()])), _planned(above), place))
            start, last = -1, tag.end()
    return _numbered([x for x in found if x is not None])


def _is_rule(line: str) -> bool:
    """Whether a line parts the heading of a table from its rows."""
    if len(line) > _MAX_ROW or "|" not in line:
        return False
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return all(_RULE.fullmatch(cell.strip()) for cell in cells)


def markdown_tables(text: str, place: str = "table") -> list[MarkedTable]:
    """The tables of metrics in Markdown: a line of headings, a rule of dashes, rows between bars."""
    found, lines = [], text.split("\n")
    i = 1
    while i < len(lines):
        if "|" not in lines[i - 1] or not _is_rule(lines[i]):
            i += 1
            continue
        end = i + 1
        while end < len(lines) and "|" in lines[end]:
            end += 1
        rows = [lines[i - 1], *lines[i + 1 : end]]
        found.append(_metrics((_between_bars(x) for x in rows), None, place))
        i = end + 1
    return _numbered([x for x in found if x is not None])


def plain_tables(text: str, place: str = "table") -> list[MarkedTable]:
    """The table of metrics that a data frame prints, as text/plain of a notebook: columns apart by spaces."""
    lines = [x.split() for x in text.split("\n") if x.strip()][:_MAX_ROWS]
    if len(lines) <= _LEAST or not all(len(x) <= _MAX_COLUMNS for x in lines[:3]):
        return []
    names = lines[0]
    rows = [x[len(x) - len(names) :] for x in lines[1:] if len(x) in (len(names), len(names) + 1)]
    found = _metrics([names, *rows], None, place)
    return [] if found is None else [found]


def runs_in_tables(tables: Sequence[MarkedTable]) -> list[MarkedTable]:
    """Runs out of tables: what only repeats another is left out, what goes on where another ends is its rest."""
    kept: list[int] = []
    for i in sorted(range(len(tables)), key=lambda i: -tables[i].n):
        if not any(_repeats(tables[i], tables[k]) for k in kept):
            kept.append(i)
    out: list[MarkedTable] = []
    for table in (tables[i] for i in sorted(kept)):
        if out and out[-1].columns.keys() == table.columns.keys() and out[-1].step.max() < table.step.min():
            rest = {k: np.concatenate([v, table.columns[k]]) for k, v in out[-1].columns.items()}
            out[-1] = out[-1]._replace(columns=rest, planned=table.planned or out[-1].planned)
        else:
            out.append(table)
    return out


def _repeats(one: MarkedTable, other: MarkedTable) -> bool:
    """Whether every row of a table is in another, up to rounding, as far as they have the same columns."""
    known = {normal(k): v for k, v in other.columns.items()}
    shared = {normal(k): v for k, v in one.columns.items() if normal(k) in known}
    if not names_reward(shared):
        return False
    order = np.argsort(other.step, kind="stable")
    place = np.searchsorted(other.step[order], one.step).clip(max=other.n - 1)
    same = order[place]
    return bool(np.array_equal(other.step[same], one.step)) and all(
        np.allclose(v, known[k][same], rtol=1e-3, atol=1e-5, equal_nan=True) for k, v in shared.items()
    )


def _rows(table: str) -> Iterator[str]:
    starts = [x.start() for x in _ROW.finditer(table)][: _MAX_ROWS + 1]
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        yield _TAG.sub(_bare, table[start : min(end, start + _MAX_ROW)])


def _bare(tag: re.Match[str]) -> str:
    """A tag of a cell or row without attributes; nothing of any other."""
    return f"<{tag[1]}{tag[2]}>" if tag[2] else ""


def _cells(row: str) -> list[str]:
    parser = _Cells()
    parser.feed(_STRAY.sub("&lt;", row))
    parser.close()
    return [" ".join(cell.split()) for cell in parser.cells]


def _between_bars(line: str) -> list[str]:
    return [cell.strip().strip("*`")[:_MAX_CELL] for cell in line[:_MAX_ROW].strip().strip("|").split("|")]


def _metrics(rows: Iterable[list[str]], planned: float | None, place: str) -> MarkedTable | None:
    """The columns of a table, where it is one of metrics by step; rows without a step are left out."""
    cells = [row for row in rows if row]
    names = cells[0] if cells else []
    steps = [i for i, name in enumerate(names) if normal(name) in _STEPS]
    if not steps or not names_reward(names):
        return None
    kept = [row for row in cells[1:] if len(row) == len(names)]
    columns = {name: to_floats([row[i] for row in kept]) for i, name in reversed(list(enumerate(names))) if name}
    columns = dict(reversed(columns.items()))
    known = np.isfinite(columns[names[steps[0]]])
    if known.sum() < _LEAST:
        return None
    return MarkedTable({k: v[known] for k, v in columns.items()}, planned, place)


def _planned(above: str) -> float | None:
    found = _PLANNED.findall(above)
    return float(found[-1][1]) or None if found else None


def _numbered(found: list[MarkedTable]) -> list[MarkedTable]:
    if len(found) < 2:
        return found
    return [x._replace(place=f"{x.place} {i}") for i, x in enumerate(found, 1)]


def described(table: MarkedTable) -> str:
    """A table in a few words, for notes."""
    return f"{table.place}, a table of {counted(table.n, 'row')}"
