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

_KNOWN = re.compile(r"(?:step|reward|score|loss|iteration|accuracy|kl)s?")
"""Words of which names in a table of training metrics have at least one."""
_BETWEEN = re.compile(r"[/_]")
_NAME = re.compile(r"\A(?:[\w.@-]+/)*+\w+")


def sniff(source: Source) -> Evidence | None:
    """Recognises a header over rows of the same width, with a name that metrics have."""
    if source.is_parquet or (found := header(source)) is None:
        return None
    names, _ = found
    known = [name for name in names if _is_known(normal(name))]
    if known or source.path.suffix.lower() in (".csv", ".tsv"):
        return Evidence(2 if known else 1, f"a header {listed(names, 4)}")
    return None


def _is_known(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and any(_KNOWN.fullmatch(word) for word in _BETWEEN.split(name))


def read(source: Source, options: ReadOptions) -> Parsed:
    """Every column as numbers, under its header."""
    found = header(source)
    if found is None:
        raise LogReadError("expected a table with a header line of column names, found none; add one")
    return Parsed(load_csv(source, found[1]))
