"""Tables of metrics inside HTML, Markdown and Jupyter notebooks, and what a notebook's cells print.

The text is untrusted. Tables, rows and cells are found by plain search, so that no text costs more than its length.
Settings of a notebook are the literals that a call of a ``…Config`` in its cells names; no code is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import unescape
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source, chosen_run, pick_reader
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.readers.console import names_reward
from bayes_grpo.logs.readers.json_text import load_json
from bayes_grpo.logs.table import Table, to_float, to_floats

_TABLE = re.compile(r"<(/?)table\b", re.IGNORECASE)
_ROW = re.compile(r"<tr\b", re.IGNORECASE)
_TAG = re.compile(r"<(?:(/?)(td|th|tr)\b)?[^<>]{0,1000}>", re.IGNORECASE)
_CELL = re.compile(r"<t[dh]>([^<]*)", re.IGNORECASE)
_STRAY = re.compile(r"<(?!/?t[dhr]>)", re.IGNORECASE)
_PLANNED = re.compile(r"\[\s{0,3}(\d{1,9})/(\d{1,9})\s")
"""Steps done and planned above a progress table, "[250/250 28:17, Epoch 0/1]"."""
_RULE = re.compile(r":?-++:?")
"""A cell of the line below a heading."""
_STEPS = frozenset(
    ("step", "steps", "global_step", "training_step", "train/global_step", "iteration", "iter", "update", "epoch")
)
_MAX_ROW, _MAX_CELL, _MAX_ROWS, _MAX_COLUMNS = 20_000, 200, 200_000, 1_000
_BEFORE = 2_000
"""Characters above a table in which the planned steps stand."""
_LEAST = 2


class MarkedTable(NamedTuple):
    """A table of metrics.

    Attributes:
        columns: Heading → cells as numbers, each of shape (n,).
        step: Its steps, shape (n,).
        planned: Planned steps that stand above it, None without.
        place: What it is called in its file.
    """

    columns: dict[str, np.ndarray]
    step: np.ndarray
    planned: float | None
    place: str

    def parsed(self, config: Mapping[str, Any] = MappingProxyType({})) -> Parsed:
        """Its rows under their headings, with the settings that belong to it."""
        note = f"read from {self.place}, a table of {counted(len(self.step), 'row')}"
        return Parsed(
            Table.from_columns(self.columns), config, total_steps=self.planned, notes=(note, *_settings_notes(config))
        )


def html_tables(text: str, place: str = "table") -> list[MarkedTable]:
    """The tables of metrics in HTML, or in text that holds HTML, in their order."""
    found, start, last = [], -1, 0
    for tag in _TABLE.finditer(text):
        if not tag[1] and start < 0:
            start = tag.start()
        elif tag[1] and start >= 0:
            planned = _PLANNED.findall(text[max(last, start - _BEFORE) : start])
            rows = _rows(text[start : tag.start()])
            found.append(_metrics(rows, place, float(planned[-1][1]) or None if planned else None))
            start, last = -1, tag.end()
    return _numbered(found)


def markdown_tables(text: str) -> list[MarkedTable]:
    """The tables of metrics in Markdown: a line of headings, a rule of dashes, rows between bars."""
    found, lines = [], text.split("\n")
    i = 1
    while i < len(lines):
        rule = _between_bars(lines[i]) if "|" in lines[i - 1] and "|" in lines[i] else [""]
        if len(lines[i]) > _MAX_ROW or not all(_RULE.fullmatch(cell) for cell in rule):
            i += 1
            continue
        end = i + 1
        while end < len(lines) and "|" in lines[end]:
            end += 1
        found.append(_metrics((_between_bars(x) for x in (lines[i - 1], *lines[i + 1 : end])), "table"))
        i = end + 1
    return _numbered(found)


def plain_tables(text: str, place: str = "table") -> list[MarkedTable]:
    """The table of metrics that a data frame prints, as text/plain of a notebook: columns separated by spaces."""
    lines = [x.split() for x in text.split("\n") if x.strip()][:_MAX_ROWS]
    if len(lines) <= _LEAST or not all(len(x) <= _MAX_COLUMNS for x in lines[:3]):
        return []
    names = lines[0]
    rows = [x[len(x) - len(names) :] for x in lines[1:] if len(x) in (len(names), len(names) + 1)]
    return _numbered([_metrics([names, *rows], place)])


def runs_in_tables(tables: Sequence[MarkedTable]) -> list[MarkedTable]:
    """Runs out of tables: what only repeats another is left out, what goes on where another ends is its rest."""
    kept: list[int] = []
    for i in sorted(range(len(tables)), key=lambda i: -len(tables[i].step)):
        if not any(_repeats(tables[i], tables[k]) for k in kept):
            kept.append(i)
    out: list[MarkedTable] = []
    for table in (tables[i] for i in sorted(kept)):
        last = out[-1] if out else None
        if last and last.columns.keys() == table.columns.keys() and last.step.max() < table.step.min():
            rest = {k: np.concatenate([v, table.columns[k]]) for k, v in last.columns.items()}
            step = np.concatenate([last.step, table.step])
            out[-1] = MarkedTable(rest, step, table.planned or last.planned, last.place)
        else:
            out.append(table)
    return out


def _repeats(one: MarkedTable, other: MarkedTable) -> bool:
    """Whether every row of a table is in another, up to rounding, as far as they have the same columns."""
    known = {normal(k): v for k, v in other.columns.items()}
    shared = {normal(k): v for k, v in one.columns.items() if normal(k) in known}
    if not names_reward(shared):
        return False
    order = np.argsort(other.step, kind="stable")
    place = np.searchsorted(other.step[order], one.step).clip(max=len(other.step) - 1)
    same = order[place]
    return bool(np.array_equal(other.step[same], one.step)) and all(
        np.allclose(v, known[k][same], rtol=1e-3, atol=1e-5, equal_nan=True) for k, v in shared.items()
    )


def _rows(table: str) -> Iterator[list[str]]:
    """The cells of each row, of bounded length and without other tags than those of cells."""
    starts = [x.start() for x in _ROW.finditer(table)][: _MAX_ROWS + 1]
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        row = _TAG.sub(lambda tag: f"<{tag[1]}{tag[2]}>" if tag[2] else "", table[start : min(end, start + _MAX_ROW)])
        cells = (x[1][:_MAX_CELL] for x in islice(_CELL.finditer(_STRAY.sub("&lt;", row)), _MAX_COLUMNS))
        yield [" ".join(unescape(cell).split()) for cell in cells]


def _between_bars(line: str) -> list[str]:
    return [cell.strip().strip("*`")[:_MAX_CELL] for cell in line[:_MAX_ROW].strip().strip("|").split("|")]


def _metrics(rows: Iterable[list[str]], place: str, planned: float | None = None) -> MarkedTable | None:
    """A table, where it is one of metrics by step; rows without a step are left out."""
    cells = [row for row in rows if row]
    names = cells[0] if cells else []
    steps = [i for i, name in enumerate(names) if normal(name) in _STEPS]
    if not steps or not names_reward(names):
        return None
    kept = [row for row in cells[1:] if len(row) == len(names)]
    columns: dict[str, np.ndarray] = {}
    for i, name in enumerate(names):
        if name and name not in columns:
            columns[name] = to_floats([row[i] for row in kept])
    step = columns[names[steps[0]]]
    known = np.isfinite(step)
    if known.sum() < _LEAST:
        return None
    return MarkedTable({k: v[known] for k, v in columns.items()}, step[known], planned, place)


def _numbered(tables: Iterable[MarkedTable | None]) -> list[MarkedTable]:
    found = [x for x in tables if x is not None]
    if len(found) < 2:
        return found
    return [x._replace(place=f"{x.place} {i}") for i, x in enumerate(found, 1)]


_SUFFIXES = (".md", ".markdown", ".html", ".htm", ".mdx", ".qmd")
_PAGE = ("<!doctype html", "<html", "<div", "<table", "<p", "<style")


def _sniff_marked_table(source: Source) -> Evidence | None:
    """Recognises a page with a table of metrics, by its ending or its beginning."""
    marked = source.path.suffix.lower() in _SUFFIXES or source.head.lstrip()[:20].lower().startswith(_PAGE)
    if source.is_store or source.is_parquet or not marked:
        return None
    found = html_tables(source.text) or markdown_tables(source.text)
    return Evidence(2, f"{len(found)} tables of metrics", sum(len(x.step) for x in found)) if found else None


def _read_marked_table(source: Source, wanted: str | None) -> Parsed:
    """The rows of the only table of metrics, or of the one that was chosen."""
    found = runs_in_tables(html_tables(source.text) or markdown_tables(source.text))
    if not found:
        raise LogReadError(
            "expected a table with a column step and one of rewards in the page, found none; choose another --format"
        )
    return found[chosen_run([x.place for x in found], wanted)].parsed()


_MARK = ('"nbformat"', '"cells"', '"cell_type"')
_MAX_CELLS, _MAX_CODE = 10_000, 200_000
_PRINTED = ("console_dict", "console_pairs", "step_blocks", "verl_console", "progress_bar", "jsonl")
_CONFIGS = ("GRPOConfig", "TrainingArguments", "TrainingConfig")


class _Cell(NamedTuple):
    name: str
    html: str
    plain: str
    printed: str
    config: dict[str, Any]


def _sniff_notebook(source: Source) -> Evidence | None:
    """Recognises an object with cells, by the ending of its name or by its fields."""
    if source.head.lstrip()[:1] != "{":
        return None
    if source.path.suffix.lower() == ".ipynb" or sum(mark in source.head for mark in _MARK) >= 2:
        return Evidence(3, "a notebook")
    return None


def _read_notebook(source: Source, wanted: str | None) -> Parsed:
    """The rows of the only training among the outputs, or of the one that was chosen."""
    document = load_json(source)
    cells = list(_notebook_cells(document))
    shown = [html_tables(cell.html, cell.name) or plain_tables(cell.plain, cell.name) for cell in cells]
    found: dict[str, Parsed] = {}
    for table in runs_in_tables([table for tables in shown for table in tables]):
        above = next((c.config for c in cells if f"{table.place} ".startswith(f"{c.name} ")), {})
        found[table.place] = table.parsed(above)
    if not found:
        found = {cell.name: x for cell in cells if (x := _of_text(cell, source, wanted)) is not None}
    if not found:
        raise LogReadError(
            f"expected a progress table or printed metrics in the outputs of the notebook, found none in "
            f"{len(cells)} cells with an output; run it and save it with its outputs, or pass trainer_state.json"
        )
    return list(found.values())[chosen_run(list(found), wanted)]


def _notebook_cells(document: Any) -> Iterator[_Cell]:
    """Cells with an output, with what was configured up to them."""
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise LogReadError("expected a notebook with a list of cells, found none; save it in format 4")
    config: dict[str, Any] = {}
    for number, cell in enumerate(cells[:_MAX_CELLS], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        config |= _configured(_text(cell.get("source")))
        outputs = [x for x in cell.get("outputs") or () if isinstance(x, dict)]
        data = [x["data"] for x in outputs if isinstance(x.get("data"), dict)]
        html, plain = (
            "\n".join(_text(x.get(kind)) for x in data if isinstance(x.get(kind), str | list))
            for kind in ("text/html", "text/plain")
        )
        printed = "".join(_text(x.get("text")) for x in outputs if x.get("output_type") == "stream")
        if outputs:
            yield _Cell(f"cell {number}", html, plain, printed, dict(config))


def _text(value: Any) -> str:
    """Text, which a notebook keeps whole or as a list of lines."""
    if isinstance(value, list):
        return "".join(x for x in value if isinstance(x, str))
    return value if isinstance(value, str) else ""


def _of_text(cell: _Cell, source: Source, wanted: str | None) -> Parsed | None:
    """What a reader of console text makes of a cell's output; None where it holds no training."""
    text = cell.printed if names_reward((cell.printed,)) else cell.plain
    if not names_reward((text,)):
        return None
    part = Source(source.path.with_suffix(".log"), text.encode())
    try:
        reader = pick_reader(part)
        if reader.name not in _PRINTED:
            return None
        parsed = reader.read(part, wanted)
    except LogReadError:
        return None
    if parsed.table.n < 2 or not names_reward(parsed.table.keys):
        return None
    notes = (f"read from the output of {cell.name} as {reader.name}", *parsed.notes, *_settings_notes(cell.config))
    return replace(parsed, config={**cell.config, **parsed.config}, notes=notes)


def _settings_notes(config: Mapping[str, Any]) -> tuple[str, ...]:
    return (f"settings in the notebook's code: {listed(config, 8)}",) if config else ()


def _configured(code: str) -> dict[str, Any]:
    """Literals among the arguments of a configuration's call; nothing where the code cannot be parsed."""
    if len(code) > _MAX_CODE or not any(name in code for name in _CONFIGS):
        return {}
    lines = ("pass" if line.lstrip()[:1] in ("!", "%") else line for line in code.split("\n"))
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node.func).endswith(_CONFIGS):
            for argument in node.keywords:
                value = argument.value.value if isinstance(argument.value, ast.Constant) else None
                if argument.arg and (isinstance(value, str) or to_float(value) == to_float(value)):
                    found[argument.arg] = value
    return found


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


READERS = (
    Reader("marked_table", _sniff_marked_table, _read_marked_table, takes_run=True),
    Reader("notebook", _sniff_notebook, _read_notebook, takes_run=True),
)
