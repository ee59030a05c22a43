"""Tables as documents hold them: rows of cells, with what makes a cell of a number, an interval or a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

from bayes_grpo.common.intervals import Interval, digits, probability_text
from bayes_grpo.common.text import plain


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: Its text.
        term: Entry of the glossary that explains it; "" for none.
        number: Whether it is aligned to the right.
        mark: Whether it is emphasized.
    """

    text: str
    term: str = ""
    number: bool = False
    mark: bool = False


@dataclass(frozen=True)
class Tabular:
    """A table.

    Attributes:
        caption: What it holds, one line.
        columns: Heads of the columns.
        rows: Rows of cells.
        note: How to read it, one line.
    """

    caption: str
    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    @property
    def wordy(self) -> bool:
        """Whether a cell is a sentence, which no phone is wide enough for in a table."""
        return any(len(c.text) > 60 for row in self.rows for c in row)


def span(i: Interval, form: str = ".4g") -> str:
    """Ends of an interval."""
    return "" if math.isnan(i.median) else f"[{digits(i.low, form)}, {digits(i.high, form)}]"


def ranged(i: Interval, form: str = ".3g") -> str:
    """Median and interval in a sentence."""
    return f"{digits(i.median, form)} {span(i, form)}"


def number(value: object, mark: bool = False) -> Cell:
    """A cell with a number."""
    return Cell(plain(value, 80), number=True, mark=mark)


def words(value: object, term: str = "", limit: int = 200, mark: bool = False) -> Cell:
    """A cell with text."""
    return Cell(plain(value, limit), term=term, mark=mark)


def chance(p: float) -> Cell:
    """A cell with a probability; empty for one that is not known."""
    return number("" if math.isnan(p) else probability_text(p))


def table(caption: str, heads: Sequence[str | Cell], rows: Iterable[Sequence[object]], note: str = "") -> Tabular:
    """A table.

    Args:
        caption: What it holds, one line.
        heads: Heads of the columns.
        rows: Rows; of each value a cell is a cell already, an interval becomes its median and ends, a number a
            number, and anything else text. A column without any text is left out.
        note: How to read it, one line.
    """
    columns = tuple(x if isinstance(x, Cell) else Cell(x) for x in heads)
    lines = [tuple(map(_cell, row)) for row in rows]
    used = [not lines or any(line[i].text for line in lines) for i in range(len(columns))]
    return Tabular(caption, tuple(compress(columns, used)), tuple(tuple(compress(x, used)) for x in lines), note)


def _cell(value: object) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, Interval):
        return number(ranged(value))
    return number(digits(value)) if isinstance(value, int | float) else words(value)
