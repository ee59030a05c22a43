"""Console text with a Python or JSON dict a row, as transformers prints its logs; a last resort."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import pairwise
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple

from bayes_grpo.common.wording import counted
from bayes_grpo.logs.console import lines_of, nothing_found, too_long
from bayes_grpo.logs.jsontext import parse_line
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.progress import StepCounter
from bayes_grpo.logs.rowkinds import told_apart
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, to_float

NAME = "console_dict"

_OPEN = re.compile(r"\{\s*['\"]")
_TOKEN = re.compile(r"['\"{}\\]")
_CALL = re.compile(r"\b(?:[A-Za-z_]\w{0,20}\.){0,2}[A-Za-z_]\w{0,20}\(\s*([-+.\w]{1,40})\s*(?:,[^()]{0,80})?\)")
_BARE = re.compile(r"(?<=[:\s,\[])(-?)(?:nan|inf)(?=\s*[,}\]])")
_COUNT = re.compile(r"\b(rollout|step|eval)\s{1,4}(\d{1,12})\s*:\s*$", re.IGNORECASE)
_JSON = re.compile(r'\A\s*+(?:\[\s*+)?\{\s*+"')
"""A JSON document or JSON lines; other readers take those."""

_TRAINING_BAR = re.compile(r"\b(\d{1,9})/(\d{1,9}) \[[^\]\n]{0,60}(?:it/s|s/it)")

_MAX_LENGTH = 20_000
_MAX_DEPTH = 8
_MAX_COUNT = 64
_MAX_BARS = 32
"""Bars that are kept in mind: loading a model and its data shows a few before the training's."""
_NO_BARS: Mapping[int, int] = MappingProxyType({})


class _Found(NamedTuple):
    row: dict[str, Any]
    bars: Mapping[int, int]
    """Planned → done of every progress bar at its newest, before the row."""


def sniff(source: Source) -> Evidence | None:
    """Recognises dicts with a reward inside lines of text."""
    if _JSON.match(source.head):
        return None
    rows = sum(1 for found in _dicts(source.head) if any("reward" in k or "score" in k for k in found.row))
    return Evidence(2, f"{counted(rows, 'dict')} with a reward", rows) if rows else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of all dicts of numbers; the step is in the dict, on the progress bar, or counted later."""
    found = list(_dicts(source.text))
    if not found:
        raise nothing_found("dicts of metrics in the text", source)
    progress = StepCounter(told_apart(f.row) for f in found)
    rows = list(progress)
    notes = ("console text is rounded; trainer_state.json, where it exists, is exact", *too_long(source.text))
    total = progress.planned
    if not any("step" in k for row in rows for k in row) and (planned := _own_bar(found)) is not None:
        rows = [{**f.row, "step": f.bars[planned]} for f in found]
        total = float(planned)
        notes += (f"the step is that of the progress bar of {planned}",)
    elif not any("step" in k for row in rows for k in row) and (bar := _last_bar(source.text)) is not None:
        placed = _placed_by(bar, rows)
        if placed is not None:
            rows, each = placed
            total = float(bar[1])
            notes += (f"the progress bar has come to {bar[0]} of {bar[1]} steps, so a row stands for {each} of them",)
        else:
            notes += (
                f"no row says its step, and the progress bar says {bar[0]} of {bar[1]}: where a row stands for several "
                f"steps, state --set logging_window=N",
            )
    return Parsed(Table.from_rows(rows), total_steps=total, notes=notes)


def _own_bar(found: list[_Found]) -> int | None:
    """The bar that counts the training: seen before every row, and moved on by every train row."""
    train = [f for f in found if _is_train(f.row)]
    for planned in found[0].bars:
        steps = [f.bars.get(planned) for f in found]
        own = [f.bars.get(planned, 0) for f in train]
        if None not in steps and own and own[0] > 0 and all(b > a for a, b in pairwise(own)):
            return planned
    return None


def _is_train(row: dict[str, Any]) -> bool:
    return not any(k.startswith(("eval", "train_runtime")) for k in row)


def _last_bar(text: str) -> tuple[int, int] | None:
    """Steps done and planned by the last bar of a training, which is neither of a download nor of examples."""
    found = deque(_TRAINING_BAR.finditer(text), maxlen=1)
    return (int(found[0][1]), int(found[0][2])) if found else None


def _placed_by(bar: tuple[int, int], rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int] | None:
    """Rows with the steps that follow from the last bar, and the steps of one; None where they do not fit it.

    Rows are as many steps apart as the bar has steps for each of them; the first may stand for the first step alone.
    """
    n, done = sum(map(_is_train, rows)), bar[0]
    first = n > 2 and done % n != 0 and done % (n - 1) == 0
    if n < 2 or done < n or (done % n and not first):
        return None
    each, out, seen = done // (n - first), [], 0
    for row in rows:
        seen += _is_train(row)
        step = done if "train_runtime" in row else max(each * (seen - first), 1)
        out.append({**row, "step": float(step)})
    return out, each


def _dicts(text: str) -> Iterator[_Found]:
    bars: dict[int, int] = {}
    counting: frozenset[int] | None = None  # bars that were there before the first row; only those count the training
    held: _Display | None = None
    for line in lines_of(text):
        for done, planned in line.bars:
            if counting is None or planned in counting:
                bars.pop(planned, None)
                bars[planned] = done
                if len(bars) > _MAX_BARS:
                    del bars[next(iter(bars))]
        piece = line.text
        if line.bars and not piece.strip():
            continue
        at = 0
        while True:
            if held is None or (at == 0 and _OPEN.match(piece)):
                start = _OPEN.search(piece, at)
                if start is None:
                    held = None
                    break
                at = start.start()
                held = _Display(piece[max(at - _MAX_COUNT, 0) : at])
            end = held.closed_in(piece, at)
            if end is None:
                held = held if held.length <= _MAX_LENGTH else None
                break
            if row := parse_dict(held.text):
                yield _Found(_counted(held.before, row), dict(bars) if bars else _NO_BARS)
                counting = frozenset(bars) if counting is None else counting
            at, held = end, None


class _Display:
    """A dict display that is being read, maybe over several lines; every character is looked at once.

    Attributes:
        before: What stands before it on its line, the last characters.
        length: Characters of it so far.
    """

    def __init__(self, before: str) -> None:
        self.before, self.length = before, 0
        self._parts: list[str] = []
        self._depth, self._quote, self._escaped = 0, "", False

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._parts)

    def closed_in(self, piece: str, start: int) -> int | None:
        """Goes on with a line from a place; the position after the brace that ends it, None where it is not there."""
        limit = min(start + _MAX_LENGTH + 1 - self.length, len(piece))
        position, self._escaped = start + self._escaped, False
        while (token := _TOKEN.search(piece, position, limit)) is not None:
            char, position = token[0], token.end()
            if char == "\\":
                self._escaped = position == len(piece)
                position += 1
            elif self._quote:
                self._quote = "" if char == self._quote else self._quote
            elif char in "'\"":
                self._quote = char
            else:
                self._depth += 1 if char == "{" else -1
                if self._depth == 0 or self._depth > _MAX_DEPTH:
                    self._take(piece[start:position])
                    return position
        self._take(piece[start:limit])
        return None

    def _take(self, part: str) -> None:
        self._parts.append(part)
        self.length += len(part)


def _counted(before: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row with the count that stands before it: ``rollout 3: {…}``, and ``step 12: {…}`` for its updates (slime)."""
    count = _COUNT.search(before)
    if count is None:
        return row
    word = count[1].lower()
    key = f"{word}/step" if word != "step" else "train/step" if any(k.startswith("train/") for k in row) else "step"
    return {key: float(count[2]), **row}


def parse_dict(text: str) -> dict[str, Any]:
    """A dict display as a dict with text keys and at least one number; empty where it is none."""
    value = None
    if (
        '"' not in text and "\\" not in text
    ):  # nearly all are JSON but for their quotes, which is read ten times as fast
        value = parse_line(text.replace("'", '"'))
    if value is None:
        value = _evaluated(text)
    if not isinstance(value, dict):
        return {}
    row = {intern(str(k)): v for k, v in value.items()}  # a name of a million rows is kept once
    metrics = row.pop("metrics", None)  # {"step": …, "metrics": {…}}
    if isinstance(metrics, dict):
        row |= {intern(str(k)): v for k, v in metrics.items()}
    elif metrics is not None:
        row["metrics"] = metrics
    return row if any(to_float(v) == to_float(v) for v in row.values()) else {}


def _evaluated(text: str) -> Any:
    text = _BARE.sub(r"'\1nan'", _CALL.sub(r"\1", text))
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return parse_line(text)
