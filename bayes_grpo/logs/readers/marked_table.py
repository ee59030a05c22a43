"""The progress table of a trainer, or another table of metrics by step, inside a Markdown or HTML file."""

from __future__ import annotations

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs.marked_tables import MarkedTable, described, html_tables, markdown_tables, runs_in_tables
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions, RunName
from bayes_grpo.logs.pick import chosen_run
from bayes_grpo.logs.source import Source

NAME = "marked_table"

_SUFFIXES = (".md", ".markdown", ".html", ".htm", ".mdx", ".qmd")
_PAGE = ("<!doctype html", "<html", "<div", "<table", "<p", "<style")


def sniff(source: Source) -> Evidence | None:
    """Recognises a page with a table of metrics, by its ending or its beginning."""
    marked = source.path.suffix.lower() in _SUFFIXES or source.head.lstrip()[:20].lower().startswith(_PAGE)
    if source.is_store or source.is_parquet or not marked:
        return None
    found = _tables(source)
    rows = sum(x.n for x in found)
    return Evidence(2, f"{len(found)} tables of metrics", rows) if found else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """The rows of the only table of metrics, or of the one that was chosen."""
    found = runs_in_tables(_tables(source))
    if not found:
        raise LogReadError(
            "expected a table with a column step and one of rewards in the page, found none; choose another --format"
        )
    table = found[chosen_run([RunName(x.place, x.place) for x in found], options.run)]
    return Parsed(table.table(), total_steps=table.planned, notes=(f"read from {described(table)}",))


def _tables(source: Source) -> list[MarkedTable]:
    return html_tables(source.text) or markdown_tables(source.text)
