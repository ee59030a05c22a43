"""What stands on a page, before it is HTML: sentences, sections, pictures, tables, all of it plain text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bayes_grpo.common.text import plain

Tone = Literal["", "good", "doubt", "alarm"]
"""How a sentence is marked, by a word and a sign as well as by a colour."""


Size = Literal["whole", "half", "small"]


@dataclass(frozen=True)
class Picture:
    """A picture as inline SVG.

    Attributes:
        wide: The drawing for a screen.
        narrow: The same for a phone; the wide one where empty.
        alt: What it shows, in a sentence, for whoever cannot see it.
        caption: Line below it.
        title: Line above it.
        size: How much of the page's width it takes on a screen: all of it, a half, or a third ("small").
    """

    wide: str
    alt: str
    caption: str = ""
    narrow: str = ""
    title: str = ""
    size: Size = "whole"


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What it says.
        term: Glossary entry that it links to; "" for none.
        number: Whether it is set as a number, to the right.
        mark: Whether it stands out.
    """

    text: str
    term: str = ""
    number: bool = False
    mark: bool = False


_SENTENCE = 60
"""Characters from which on a cell is a sentence."""


@dataclass(frozen=True)
class PageTable:
    """A table.

    Attributes:
        caption: What it holds, in a line.
        columns: Heads of the columns; those of `Cell` kind link into the glossary.
        rows: Rows of cells.
        folded: Whether it is shown on request alone.
    """

    caption: str
    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False

    @property
    def wordy(self) -> bool:
        """Whether sentences stand in it, which no phone is wide enough for beside other columns."""
        return any(len(c.text) > _SENTENCE for row in self.rows for c in row)

    @property
    def text(self) -> str:
        """The table as lines with tabs, to be copied."""
        lines = [[c.text for c in self.columns], *([c.text for c in row] for row in self.rows)]
        return "\n".join("\t".join(line) for line in lines)


@dataclass(frozen=True)
class Part:
    """A few lines with a heading of their own inside a section.

    Attributes:
        title: Heading.
        lines: Its lines.
        tone: How it is marked.
    """

    title: str
    lines: tuple[str, ...]
    tone: Tone = ""


@dataclass(frozen=True)
class Section:
    """What the page says to one question.

    Attributes:
        key: Name, and anchor on the page.
        title: Heading, short.
        question: The question.
        answer: The sentence that answers it.
        tone: How the sentence is marked.
        pictures: Shown first.
        tables: Numbers.
        parts: Lines with headings: what would tell, warnings, what to do.
        terms: Glossary entries that it uses beside those of its tables.
        explained: Entries of its own, such as the quantities of a law: term → its one line.
        missing: Why it could not be computed; then there is nothing else.
    """

    key: str
    title: str
    question: str
    answer: str = ""
    tone: Tone = ""
    pictures: tuple[Picture, ...] = ()
    tables: tuple[PageTable, ...] = ()
    parts: tuple[Part, ...] = ()
    terms: tuple[str, ...] = ()
    explained: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""

    @property
    def used(self) -> tuple[str, ...]:
        """Glossary entries that it uses."""
        cells = [c.term for t in self.tables for c in (*t.columns, *(c for row in t.rows for c in row)) if c.term]
        return (*cells, *self.terms)


@dataclass(frozen=True)
class Lead:
    """One of the sentences at the top.

    Attributes:
        label: What it is about.
        sentence: The sentence.
        chance: Its probability in a few words, such as "P(gain) 0.87".
        tone: How it is marked.
        section: Section that says more.
    """

    label: str
    sentence: str
    chance: str = ""
    tone: Tone = ""
    section: str = ""


@dataclass(frozen=True)
class Top:
    """How the run stands: one box at the top, everything else below it.

    Attributes:
        status: One word.
        meaning: What the word means.
        chance: Its probability in a few words.
        sentence: What is so.
        action: The one thing to do now.
        more: What else to do.
        rests_on: What all of it rests on.
        tone: How it is marked.
        section: Section that says more.
    """

    status: str
    meaning: str
    chance: str
    sentence: str
    action: str
    more: tuple[str, ...] = ()
    rests_on: str = ""
    tone: Tone = ""
    section: str = ""


@dataclass(frozen=True)
class Reference:
    """Where the run, or the commit that it ran, is found.

    Attributes:
        text: What is shown.
        address: Where it leads; "" for none.
    """

    text: str
    address: str = ""


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: Name of the run, or of what the page is about.
        about: Line below it: rows, steps, format.
        leads: Sentences at the top.
        alert: What must be read before all else; "" mostly.
        top: How the run stands and what to do; None where nobody could say.
        hero: Picture below the sentences; None without.
        sections: The sections in order.
        glossary: Term → its one-line explanation, for the terms that the page uses.
        made: Line at the end: version, seed, time.
        docs: Where the built documentation lies, for links from the sections; "" without.
        links: Where the run and its commit are found.
    """

    title: str
    about: str
    leads: tuple[Lead, ...]
    sections: tuple[Section, ...]
    alert: str = ""
    top: Top | None = None
    hero: Picture | None = None
    glossary: Mapping[str, str] = field(default_factory=dict)
    made: str = ""
    docs: str = ""
    links: tuple[Reference, ...] = ()


def said(text: object, limit: int = 600) -> str:
    """A sentence for the page: one line without control characters, of bounded length, beginning with a capital."""
    shown = plain(text, limit).strip()
    symbol = shown[1:2] in ("", " ") and shown[:1] != "a"  # "c = 2 ζ m ω₀" begins with a name
    return shown if symbol else shown[:1].upper() + shown[1:]


def head(*names: str | Cell) -> tuple[Cell, ...]:
    """Heads of columns."""
    return tuple(x if isinstance(x, Cell) else Cell(x) for x in names)


def number(value: object, mark: bool = False) -> Cell:
    """A number's cell."""
    return Cell(plain(value, 60), number=True, mark=mark)


def words(value: object, term: str = "", limit: int = 200, mark: bool = False) -> Cell:
    """A cell of text."""
    return Cell(plain(value, limit), term=term, mark=mark)
