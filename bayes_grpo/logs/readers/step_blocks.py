"""Console text with a heading a step and its metrics on the lines below: ``=== Step 3 ===``, ``Mean reward: 0.2``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from bayes_grpo.logs.console import lines_of, names_reward, nothing_found, usual
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, to_float

NAME = "step_blocks"

_HEADING = re.compile(
    r"[^\w\n]{0,80}(?:global |training |train )?(?:step|iteration|iter|update)\s{0,4}[:#=]?\s{0,4}"
    r"(\d{1,12})(?:\s?(?:/|of)\s?(\d{1,12}))?[^\w\n]{0,80}",
    re.IGNORECASE,
)
"""A line that holds nothing but the step."""

_PAIR = re.compile(r"[^\w\n]{0,20}([A-Za-z_][\w./@ -]{0,60}?)\s{0,20}[:=]\s{0,20}([-+]?[.\d][\d.eE+-]{0,30}%?)\s*")
"""A line that holds nothing but a name and a number."""

_MAX_LINE = 200
_MIN_BLOCKS = 3
_SHARE = 0.8

_Block = tuple[float, float | None, dict[str, float]]


def sniff(source: Source) -> Evidence | None:
    """Recognises at least three headings over a reward, in most of the blocks."""
    blocks = list(_blocks(source.head))
    rewarded = sum(1 for _, _, row in blocks if names_reward(row))
    if rewarded < _MIN_BLOCKS or rewarded < _SHARE * (len(blocks) - 1):  # the last one may be cut off
        return None
    return Evidence(1, f"{rewarded} headings of a step over a reward", rewarded)


def read(source: Source, options: ReadOptions) -> Parsed:
    """A row for every heading, of the names that stand below it once."""
    blocks = list(_blocks(source.text))
    if not blocks:
        raise nothing_found("headings such as 'Step 3/100' over lines such as 'reward: 0.24'", source)
    rows = [{**row, "step": step} for step, _, row in blocks]
    return Parsed(Table.from_rows(rows), total_steps=usual(total for _, total, _ in blocks))


def _blocks(text: str) -> Iterator[_Block]:
    """Step, planned steps, and the numbers that the lines below name once."""
    head: re.Match[str] | None = None
    pairs: list[tuple[str, str]] = []
    for line in lines_of(text):
        if len(line.text) > _MAX_LINE:
            continue
        heading = _HEADING.fullmatch(line.text)
        if heading is not None:
            yield from _block(head, pairs)
            head, pairs = heading, []
        elif head is not None and (pair := _PAIR.fullmatch(line.text)) is not None:
            pairs.append((pair[1], pair[2]))
    yield from _block(head, pairs)


def _block(head: re.Match[str] | None, pairs: list[tuple[str, str]]) -> Iterator[_Block]:
    names = Counter(name for name, _ in pairs)
    row = {name: to_float(value) for name, value in pairs if names[name] == 1}
    if head is not None and row:
        yield float(head[1]), float(head[2]) if head[2] else None, row
