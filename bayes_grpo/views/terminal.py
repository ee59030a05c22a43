"""A document on a terminal or in a pipe: the answer first, then why, what to do, and at most one table."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.document import Cell, Document, Section, Sparkline, Tabular
from bayes_grpo.common.intervals import percent
from bayes_grpo.common.text import plain

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"alarm": "bold red", "doubt": "bold yellow", "good": "bold green", "": "bold"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
"""Most characters of a sparkline."""
_NAME = 32
"""Characters of a name up to which it stands on one line of a table."""
_WRAPPED = 20
"""Characters of a column of text that is still read when it is wrapped."""
_HEAD = 10
"""Characters of a head below which it is not wrapped."""
_LINE = 1000
"""Most characters of a sentence."""


def print_document(document: Document, console: Console, *, details: bool = False, short: bool = False) -> None:
    """Prints a document.

    Args:
        document: The document.
        console: Where to; a sparkline is drawn on a terminal alone.
        details: Whether to print all sections.
        short: Whether to print no more than answer, why and what to do.
    """
    for part in printed(document, console.is_terminal, console.width, details=details, short=short):
        console.print(part)


def printed(
    document: Document, terminal: bool, width: int = 120, *, details: bool = False, short: bool = False
) -> list[Any]:
    """A document for rich, top to bottom, on a terminal of a width or in a pipe."""
    from rich.text import Text

    def line(text: str, style: str = "") -> Text:
        return Text(plain(text, _LINE), style=style)

    first, *rest = document.first_lines or ("",)
    parts: list[Any] = [line(first, _STYLES[document.tone]), *map(line, rest)]
    if short:
        return parts
    if terminal and document.series is not None:
        parts += [line(x, "cyan") for x in sparkline(document.series, width)]
    if document.about:
        parts.append(line(": ".join(x for x in (document.title, document.about) if x), "dim"))
    for point in document.points:
        chance = "" if point.chance is None else f" ({percent(point.chance)} {point.event})"
        parts.append(line(f"{point.label}{chance}: {point.sentence}"))
    if document.table is not None:
        parts += ["", *_table(document.table, width)]
    if details:
        for section in (s for s in document.sections if not s.empty):
            parts += ["", *_section(section, width)]
    parts.append("")
    if document.assumed:
        parts.append(line(f"Assumed: {document.assumed}", "dim"))
    if document.unchecked:
        parts.append(line(document.unchecked, "dim"))
    more = [] if details or all(s.empty for s in document.sections) else ["--details"]
    more += [f"docs/{document.docs}.md"] if document.docs else []
    if more:
        parts.append(line(f"More: {', '.join(more)}", "dim"))
    return parts if parts[-1] else parts[:-1]


def sparkline(series: Sparkline, width: int = 80) -> list[str]:
    """The reward in one line of blocks, and below it each event under its step; nothing for fewer than two rewards.

    Where a label would pass the terminal's ``width``, it stands to the left of its mark.
    """
    known = [(s, r) for s, r in zip(series.step, series.reward, strict=True) if math.isfinite(r)]
    if len(known) < 2:
        return []
    size = min(_WIDTH, len(known))
    bins = [known[len(known) * i // size : len(known) * (i + 1) // size] for i in range(size)]
    means = [math.fsum(r for _, r in some) / len(some) for some in bins]
    low, high = min(means), max(means)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    blocks = "".join(_BLOCKS[round((m - low) * scale)] for m in means)
    out = [f"{blocks}  {means[0]:.3g} → {means[-1]:.3g}"]
    for label, step in series.events.items():
        at = next((i for i, some in enumerate(bins) if some[-1][0] >= step), size - 1)
        text = f"step {step:g}: {label}"
        fits = at + len(text) + 2 <= width or len(text) >= at
        out.append(f"{' ' * at}^ {text}" if fits else f"{text} ^".rjust(at + 1))
    return out


def _section(section: Section, width: int) -> list[Any]:
    from rich.text import Text

    style = {"alarm": "bold red", "doubt": "bold yellow"}.get(section.tone, "bold")
    parts: list[Any] = [Text(section.title, style=style)]
    parts += [Text(plain(x, _LINE)) for x in (section.lead, *section.lines) if x]
    if section.missing:
        parts.append(Text(f"Not available: {plain(section.missing, _LINE)}", style="yellow"))
    for table in section.tables:
        parts += _table(table, width)
    return parts


def _table(table: Tabular, width: int) -> list[Any]:
    """A table; on a narrow terminal its heads are wrapped, or each row is a block of lines, so that nothing is cut."""
    from rich.table import Table as RichTable
    from rich.text import Text

    note = [Text(table.note, style="dim")] if table.note else []
    columns = [(column.text, [row[i] for row in table.rows]) for i, column in enumerate(table.columns)]
    fixed = [any(c.number for c in cells) or all(" " not in c.text and len(c.text) <= _NAME for c in cells)
             for _, cells in columns]  # fmt: skip
    widest = [max((len(c.text) for c in cells), default=0) for _, cells in columns]
    titles = [head for head, _ in columns]
    if _table_width(titles, widest, fixed) > width:
        titles = ["\n".join(textwrap.wrap(head, max(cell, _HEAD))) for head, cell in zip(titles, widest, strict=True)]
    if _table_width(titles, widest, fixed) > width:
        return [*(x for row in table.rows for x in _block(table, row)), *note]
    heads = any(titles)
    grid = RichTable(box=None, pad_edge=False, header_style="bold", show_header=heads)
    for (_, cells), head, no_wrap in zip(columns, titles, fixed, strict=True):
        right = any(c.number for c in cells)
        grid.add_column(Text(head), justify="right" if right else "left", overflow="fold", no_wrap=no_wrap)
    for row in table.rows:
        grid.add_row(*(Text(c.text, style="bold" if c.mark else "") for c in row))
    return [grid, *note]


def _table_width(heads: list[str], widest: list[int], fixed: list[bool]) -> int:
    """Characters that a table takes, by the widest cell of each column; text that is not fixed can be wrapped."""
    wide = [max(cell, *map(len, head.split("\n"))) for head, cell in zip(heads, widest, strict=True)]
    return sum(w if f else min(w, _WRAPPED) for w, f in zip(wide, fixed, strict=True)) + 2 * len(wide)


def _block(table: Tabular, row: tuple[Cell, ...]) -> list[Any]:
    """A row as lines: its first cell, and below it each other cell with the head of its column."""
    from rich.text import Text

    pairs = zip(table.columns[1:], row[1:], strict=True)
    lines = [f"  {head.text}: {c.text}" if head.text else f"  {c.text}" for head, c in pairs if c.text]
    return [Text(row[0].text, style="bold"), *map(Text, lines)]
