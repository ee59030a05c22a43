"""Shapes of tables in plain text that are none of a header line above rows: turned, a cell a line, numbers alone."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from bayes_grpo.logs.cells import in_rows_of_steps, value_in
from bayes_grpo.logs.file_names import is_of_rewards
from bayes_grpo.logs.grids import is_step_column
from bayes_grpo.logs.json_columns import STEPS
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import names_reward
from bayes_grpo.logs.shapes import is_number
from bayes_grpo.logs.table import to_float

_SEPARATORS = (",", "\t", ";", "|", " ")
_MAX_LINE, _MAX_LINES = 65_536, 200_000
_FEWEST = 2
_LOOKED_AT = 20
"""Lines of the beginning of a text that are looked at."""
_EMPTY = frozenset(("", "no log", "nan", "none", "null", "n/a", "-"))
_MARKED = re.compile(r"[{<]|\[\s{0,9}[\[{\"]")
"""How JSON, dictionaries and HTML begin."""
_MILLISECONDS = 1e11
"""Milliseconds since 1970 from which on a number is a time."""


class TextTable(NamedTuple):
    """Columns of cells by their names, all of one length, and a note on the shape that the text has."""

    columns: dict[str, list[str]]
    note: str


def table_in(text: str, stem: str = "") -> TextTable | None:
    """The table of metrics that a whole text is, in one of the shapes of this module; None where it has another.

    ``stem`` is the name of the file without its ending, which may say of what its numbers are.
    """
    lines = [line.strip() for line in text.split("\n", _MAX_LINES)[:_MAX_LINES]]
    lines = [line for line in lines if line]
    if len(lines) < _FEWEST or max(map(len, lines)) > _MAX_LINE:
        return None
    return _turned(lines) or _cell_a_line(lines) or _bare(lines, stem)


def may_hold_table(head: str) -> bool:
    """True if the first lines of a text may be those of such a table, which is cheap to see."""
    lines = [line.strip() for line in head[:_MAX_LINE].split("\n", _LOOKED_AT)[:_LOOKED_AT]]
    lines = [line for line in lines if line]
    if not lines or _MARKED.match(lines[0]):
        return False
    return bool(
        any(map(is_number, lines))
        or any(re.fullmatch(r"[-+\d.eE\s]{5,200}", x) for x in lines[:1])
        or sum(any(c.isdigit() for c in cell) for cell in re.split(r"[,\t;| ]", lines[0])) >= _FEWEST
    )


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    try:
        return [x.strip() for x in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]
    except csv.Error:
        return []


def _columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Columns of rows, of which one that is named as a step stands for what was taken for it."""
    own = any(normal(name) in STEPS for name in names[1:])
    columns: dict[str, list[str]] = {}
    for i, name in enumerate(names):
        if i or not own:
            columns.setdefault(name, [value_in(row[i]) for row in rows])
    return columns


def _turned(lines: Sequence[str]) -> TextTable | None:
    """A row for each metric, a column for each step."""
    for separator in _SEPARATORS:
        names = _cells(lines[0], separator)
        numbered = sum(any(c.isdigit() for c in name) for name in names[1:])
        if numbered < _FEWEST:
            continue
        found = in_rows_of_steps(names, [_cells(line, separator) for line in lines[1:]])
        if found is not None:
            return TextTable(_columns(*found), "a row of the table is a metric and a column a step; it is turned")
    return None


def _cell_a_line(lines: Sequence[str]) -> TextTable | None:
    """The cells of a table one below the other, its headings first, as a copy from a notebook's page has them."""
    n = next((i for i, line in enumerate(lines[:200]) if is_number(line)), 0)
    start = max((i for i in range(n) if is_step_column(lines[i])), default=n)
    names = lines[start:n]
    if len(names) < _FEWEST or not names_reward(names) or len({*names}) < len(names):
        return None
    cells: list[str] = []
    for line in lines[n:]:
        if not is_number(line) and line.lower() not in _EMPTY:
            break
        cells.append(line)
    rows = [cells[i : i + len(names)] for i in range(0, len(cells) - len(names) + 1, len(names))]
    steps = [to_float(row[0]) for row in rows]
    if len(rows) < _FEWEST or not all(b > a for a, b in pairwise(steps)) or any(step % 1 for step in steps):
        return None
    return TextTable(_columns(names, rows), f"one cell a line: {len(rows)} rows below {len(names)} headings")


def _bare(lines: Sequence[str], stem: str) -> TextTable | None:
    """Numbers alone, one a line, or those of MLflow with their time and step, in a file that is named for rewards."""
    rows = [line.split() for line in lines]
    if not is_of_rewards(stem) or len(rows) <= _FEWEST or not all(is_number(x) for row in rows for x in row):
        return None
    if all(len(row) == 1 for row in rows):
        return TextTable({"reward": [x for (x,) in rows]}, "numbers alone, which the name of the file calls rewards")
    if all(len(row) == 3 and to_float(row[0]) > _MILLISECONDS and to_float(row[2]) % 1 == 0 for row in rows):
        columns = {"step": [row[2] for row in rows], "reward": [row[1] for row in rows]}
        return TextTable(columns, "a metric as MLflow keeps it, which the name of the file calls rewards")
    return None
