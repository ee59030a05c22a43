"""Contents of a result's view, before it is text, HTML or a notebook's cell: plain sentences, tables, figures."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from itertools import compress
from typing import Any, Literal

from bayes_grpo.common.intervals import Interval, digits, percent, probability_text
from bayes_grpo.common.text import plain


@dataclass(frozen=True)
class Cell:
    """A cell of a table: text, right-aligned if it is a ``number``, emphasized by ``mark``.

    ``term`` is the entry of the glossary that explains it; "" for none.
    """

    text: str
    term: str = ""
    number: bool = False
    mark: bool = False


@dataclass(frozen=True)
class Tabular:
    """A table: what it holds, heads of the columns, rows of cells, and how to read it, one line."""

    caption: str
    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    @property
    def wordy(self) -> bool:
        """True where a cell is a sentence, too wide for a table on a phone."""
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
    """A table; a column without any text is left out.

    Of each value in ``rows`` a cell is a cell already, an interval becomes its median and ends, a number a number, and
    anything else text.
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


Tone = Literal["", "good", "doubt", "alarm"]
"""Color of a sentence whose words say the same."""
TONES: Mapping[str, Tone] = {
    "fine": "good", "done": "good", "watch": "doubt", "unclear": "doubt", "failing": "alarm", "failed": "alarm",
}  # fmt: skip
"""Status of a run → tone."""
Size = Literal["whole", "half", "small"]
"""Share of a page's width: all, a half, a third."""


@dataclass(frozen=True)
class Drawing:
    """A figure, drawn when a back end asks for it.

    Attributes:
        draw: Draws on an empty figure, given as ``figure``.
        alt: What it shows, one sentence; figures of a page with the same one are the same.
        size: Share of the page's width.
        ratio: Height over width.
    """

    draw: Callable[..., object] = field(compare=False)
    alt: str
    size: Size = "whole"
    ratio: float = 0.4


@dataclass(frozen=True)
class Section:
    """Part of a document that is read on request: ``--details`` on a terminal, folded on a page.

    Attributes:
        lines: Sentences, after the tables on a page.
        lead: The answer, before everything else; "" without.
        tone: How it is marked.
        missing: Why it could not be computed; then there is nothing else.
        terms: Entries of the glossary that it needs besides those of its tables.
    """

    title: str
    lines: tuple[str, ...] = ()
    tables: tuple[Tabular, ...] = ()
    plots: tuple[Drawing, ...] = ()
    tone: Tone = ""
    missing: str = ""
    terms: tuple[str, ...] = ()
    lead: str = ""

    @property
    def key(self) -> str:
        """Its anchor on a page."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def empty(self) -> bool:
        """True where there is nothing to show."""
        return not (self.lead or self.lines or self.tables or self.plots or self.missing)


@dataclass(frozen=True)
class Point:
    """One of the answers at the top of a page: the question in a few words, and the answer.

    ``chance`` is the probability of the ``event``, named after "chance of"; None where there is none.
    """

    label: str
    sentence: str
    chance: float | None = None
    event: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Sparkline:
    """Rewards by step for the sparkline of a terminal, with events to mark: label → step."""

    step: Sequence[float]
    reward: Sequence[float]
    events: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """The view of a result. All text is plain.

    Attributes:
        title: What it is about, such as the name of a run.
        answer: The answer, at most 20 words.
        evaluation: Where the evaluation reward stands, after the answer; "" where none is logged or the answer has it.
        why: What the answer rests on.
        do: What to do now.
        about: Rows, steps and source, one line.
        status: Status of a run, one word; "" where there is none.
        chance: Probability of the status; None where there is none.
        tone: How the answer is marked.
        points: Further answers, for a page; ``plot`` is the figure below them.
        table: The one table of the first screen; ``sections`` are everything else.
        assumed: What was assumed, one line.
        unchecked: What could not be checked or limits the answer, one line.
        docs: Page of the documentation that explains it, such as "how/fit".
        series: Rewards for a sparkline.
        made: Last line of a page: version, time, seed.
        conditional: Whether the answer is what comes if nothing changes, and says so where the run fails.
    """

    title: str
    answer: str
    why: str = ""
    do: str = ""
    about: str = ""
    status: str = ""
    chance: float | None = None
    tone: Tone = ""
    points: tuple[Point, ...] = ()
    plot: Drawing | None = None
    table: Tabular | None = None
    sections: tuple[Section, ...] = ()
    assumed: str = ""
    unchecked: str = ""
    docs: str = ""
    series: Sparkline | None = None
    made: str = ""
    conditional: bool = True
    evaluation: str = ""

    @property
    def first_lines(self) -> tuple[str, ...]:
        """Answer, why and what to do: what ``--short`` prints."""
        chance = "" if self.chance is None else f" ({percent(self.chance)})"
        lead = f"{self.status.upper()}{chance}: " if self.status else ""
        first = " ".join(x for x in (f"{lead}{self.answer}", self.evaluation) if x)
        return tuple(x for x in (first, self.why, self.do and f"Do now: {self.do}") if x)

    def folded(self, title: str = "") -> Section:
        """It as a section of another document: answer, reason and table."""
        tables = () if self.table is None else (self.table,)
        return section(title or self.title, self.why, tables=tables, tone=self.tone, lead=self.answer)


@singledispatch
def registered_document(result: Any) -> Document:
    """The document of a result by the function that its view registered; `view` imports the view first."""
    raise TypeError(f"view: expected a result, found {type(result).__name__}; register a view with document.shows")


shows = registered_document.register
"""Registers the view of a class of results."""


def sentence_case(text: object, limit: int = 600, upper: bool = True) -> str:
    """One line without control characters that begins with a capital, or with a small letter inside a sentence."""
    shown = plain(text, limit).strip()
    first, rest = shown[:1], shown[1:]
    if not upper:
        return shown if rest[:1].isupper() else first.lower() + rest
    symbol = rest[:1] in ("", " ") and first != "a"  # "c = 2 ζ m ω₀" begins with a name
    return shown if symbol else first.upper() + rest


def section(title: str, *lines: str, **more: Any) -> Section:
    """A section of lines, of which the empty ones are left out."""
    return Section(title, tuple(x for x in lines if x), **more)
