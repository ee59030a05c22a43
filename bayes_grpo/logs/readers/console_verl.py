"""verl's console: a line a step with pairs between dashes, also where a terminal or a hand has broken it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from bayes_grpo.common.text import counted
from bayes_grpo.logs.formats import Evidence, Source
from bayes_grpo.logs.lines import JSON_START, Bars, lines_of, too_long
from bayes_grpo.logs.readers.console import Rows, line_reader
from bayes_grpo.logs.table import to_float

_KEY = r"[a-z][\w-]{0,40}/[\w/@.-]{1,80}:[-.\d]"
"""A key and the beginning of its value."""
_VERL_STEP = re.compile(rf"(?<![\w/.])(training/global_)?step:(\d{{1,12}})\s{{1,8}}(?:- (?=\S)|(?={_KEY}))")
_NEXT_STEP = re.compile(r"(?<![\w/.])(?=step:\d{1,12}\s{1,8}- )")
_VERL_HEADING = re.compile(r"\s{0,8}step:\d{1,12}\s{0,8}")
"""A step on a line of its own, above one key a line."""
_BETWEEN = re.compile(rf"\s{{1,80}}- |(?<=[\d)])\s{{2,}}|(?<=\d)\s(?={_KEY})")
"""Separator between two pairs: a dash, or blanks where someone has set them one below another."""
_REPEATED = re.compile(r"\[repeated \d{1,9}x across cluster\]")
"""Suffix that Ray puts behind a line that several processes print."""


_ROUNDED_RATE = re.compile(r"actor/lr:0\.0{2,9}(?![.\de])")
"""A learning rate that is 0 after rounding, as rates of a policy are."""


def _sniff_verl_console(source: Source) -> Evidence | None:
    """Recognizes lines that begin the way verl prints its metrics."""
    rows = sum(1 for _ in _VERL_STEP.finditer(source.head))
    if not rows and "step:" in source.text and not JSON_START.match(source.head):
        rows = int(_VERL_STEP.search(source.text) is not None)  # its configuration may be longer than the head
    return Evidence(3, rows) if rows else None


def _verl_rows(text: str) -> Rows:
    """A row for every line that begins with a step, of the pairs between dashes."""
    for line in (part for whole in _unwrapped(lines_of(text)) for part in _NEXT_STEP.split(whole)):
        if (found := _VERL_STEP.search(line)) is None:
            continue
        row = {"step": float(found[2])}
        start = 0 if found[1] else found.end()  # the beginning of the line was cut off
        for part in _BETWEEN.split(_REPEATED.split(line[start:], maxsplit=1)[0]):
            key, colon, value = part.rpartition(":")
            if colon and "/" in key and not _ROUNDED_RATE.fullmatch(part.strip()):
                row[key.strip()] = to_float(value)
        yield row, None


_GOES_ON = re.compile(
    r"(?!\s{0,8}(?:[(\[]|\d{4}-|step:))"
    r"(?:[^\n]{0,160}? - [\w/@.()-]{1,80}:[-+.\d]|[\w/@.()-]{0,80}:?[-+.\de]{1,30}\s*\Z"
    rf"|\s{{1,40}}{_KEY})"
)
"""A line that goes on with a row of verl's, or ends it, which a terminal's width has broken."""


_COMPLETE_PAIR = re.compile(r":-?[\d.]{1,30}(?:e-?\d{1,3})?\Z")
_BEGINS_PAIR = re.compile(r"[A-Za-z]\w{0,40}/[\w/@.-]{1,80}:[-.\d]")
"""The end of a pair, and the beginning of another in the next line, which was broken between them."""


def _unwrapped(lines: Iterable[tuple[str, Bars]]) -> Iterator[str]:
    """Lines, those of a row that a terminal has wrapped joined."""
    whole, row = "", False
    for text, _ in lines:
        step = _VERL_STEP.search(text)
        if row and (step is None or step[1]) and _GOES_ON.match(text):
            between = " " if whole.endswith(" -") or text.startswith("- ") else ""
            whole += (" - " if _COMPLETE_PAIR.search(whole) and _BEGINS_PAIR.match(text) else between) + text
            continue
        yield whole
        whole = text
        row = (step or _VERL_HEADING.fullmatch(text)) is not None
    yield whole


def _notes(text: str) -> tuple[str, ...]:
    """Notes on lines that are too long, and on learning rates that are lost by rounding."""
    lost = len(_ROUNDED_RATE.findall(text))
    rounded = f"'actor/lr' is 0 after rounding in {counted(lost, 'line')}, and unknown there"
    return (*too_long(text), *((rounded,) if lost else ()))


_LINES = "lines such as 'step:3 - critic/score/mean:0.24'"
READERS = (line_reader("verl_console", _verl_rows, _LINES, _notes, sniff=_sniff_verl_console),)
