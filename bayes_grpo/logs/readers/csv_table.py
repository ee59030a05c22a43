"""A table of delimited text with a header line: comma, tab, semicolon or bar."""

from __future__ import annotations

import re

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import listed
from bayes_grpo.logs.csvtext import header, load_csv
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source

NAME = "csv"

_KNOWN = re.compile(r"(?:[\w.@-]+/)*_?(?:\w+_)?(?:step|reward|score|loss|iteration|accuracy|kl)s?(?:_\w+|/\w+)*")
"""Names that a table of training metrics has at least one of."""


def sniff(source: Source) -> Evidence | None:
    """Recognises a header over rows of the same width, with a name that metrics have."""
    if source.is_parquet or (found := header(source)) is None:
        return None
    names, _ = found
    known = [name for name in names if _KNOWN.fullmatch(normal(name))]
    if known or source.path.suffix.lower() in (".csv", ".tsv"):
        return Evidence(2 if known else 1, f"a header {listed(names, 4)}")
    return None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Every column as numbers, under its header."""
    found = header(source)
    if found is None:
        raise LogReadError("expected a table with a header line of column names, found none; add one")
    return Parsed(load_csv(source, found[1]))
