"""Tables of metrics inside HTML, Markdown and Jupyter notebooks, and what a notebook's cells print.

The text is untrusted. Tables, rows and cells are found by plain search, so that no text costs more than its length.
Settings of a notebook are the literals that a call of a ``…Config`` in its cells names; no code is run.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from html import unescape
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, RunName, Source, chosen_run, main_run, pick_reader
from bayes_grpo.logs.keyindex import normal, parted
from bayes_grpo.logs.readers.console import names_reward
from bayes_grpo.logs.readers.json_text import load_json
from bayes_grpo.logs.table import RUN_KEYS, Table, to_float

_TABLE = re.compile(r"<(/?)table\b", re.IGNORECASE)
_ROW = re.compile(r"<tr\b", re.IGNORECASE)
_TAG = re.compile(r"<(?:(/?)(td|th|tr)\b)?[^<>]{0,1000}>", re.IGNORECASE)
_CELL = re.compile(r"<t[dh]>([^<]*)", re.IGNORECASE)
_STRAY = re.compile(r"<(?!/?t[dhr]>)", re.IGNORECASE)
_PLANNED = re.compile(r"\[\s{0,3}\d{1,9}/(\d{1,9})\s")
"""Planned steps above a progress table, "[250/250 28:17, Epoch 0/1]"."""
_STEPS = frozenset(
    ("step", "steps", "global_step", "training_step", "train/global_step", "iteration", "iter", "update", "epoch")
)
_MAX_ROW, _MAX_CELL, _MAX_ROWS, _MAX_COLUMNS = 20_000, 200, 200_000, 1_000
_BEFORE = 2_000
"""Characters above a table in which the planned steps stand."""
_LEAST, _MAX_TABLES = 2, 200
_SHOWN = 3
"""Tables without rewards that a refusal describes."""
_BAR = re.compile("[|\u2502\u2503\u2506\u250a]")
_MISSES = 4
"""Lines that are no rows, such as rules and types, after which a table in prose has ended."""


def html_tables(text: str) -> list[Parsed]:
    """The tables of metrics in HTML, in their order."""
    found = []
    start = -1
    last = 0
    for tag in _TABLE.finditer(text):
        if not tag[1] and start < 0:
            start = tag.start()
        elif tag[1] and start >= 0:
            planned = _PLANNED.findall(text[max(last, start - _BEFORE) : start])
            for table in _metrics(_rows(text[start : tag.start()])):
                found.append(replace(table, total_steps=float(planned[-1]) or None if planned else None))
            start, last = -1, tag.end()
    return found


def _between_boxes(line: str) -> list[str]:
    """Cells between bars of any kind, Markdown's without its marks."""
    cells = _BAR.sub("|", line)[:_MAX_ROW].strip().strip("|").split("|") if _BAR.search(line) else ()
    return [cell.strip().strip("*`")[:_MAX_CELL] for cell in cells]


_SPLITS = (_between_boxes, lambda line: [cell.strip() for cell in re.split(r"[,\t;]", line)], str.split)
"""How the cells of a line in a text are separated."""


def text_tables(text: str) -> list[Parsed]:
    """Tables of metrics in Markdown, in prose and as a data frame prints them.

    Columns stand between bars, commas, tabs or spaces, below their names; a heading begins another table.
    """
    found = []
    lines = text.split("\n")[:_MAX_ROWS]
    end = 0
    for i, line in enumerate(lines):
        if i < end or len(line) > _MAX_ROW or not names_reward((line,)):
            continue
        for split in _SPLITS:
            names = split(line)
            if not _is_heading(names):
                continue
            rows = []
            for end, other in enumerate(lines[i + 1 :], i + 1):
                cells = split(other[:_MAX_ROW])
                if _is_heading(cells):
                    break
                wide = split is str.split and len(cells) == len(names) + 1  # a data frame prints its index
                if wide:
                    rows.append(cells[1:])
                elif len(cells) == len(names):
                    rows.append(cells)
                if end - i - len(rows) > _MISSES:
                    break
            if tables := _metrics([names, *rows]):
                found += tables
                break
        else:
            end = i
    return found


def _is_heading(cells: Sequence[str]) -> bool:
    """Whether the columns of a table of metrics have such names: a step and a reward."""
    return names_reward(cells) and any(normal(cell) in _STEPS for cell in cells)


def _runs_in(tables: Mapping[str, Parsed]) -> dict[str, Parsed]:
    """Runs out of tables: one that repeats another is left out, one that goes on where another ends is its rest."""
    if len(tables) > _MAX_TABLES:
        return dict(tables)  # each is compared with all others
    kept: list[str] = []
    for name in sorted(tables, key=lambda name: -tables[name].table.n):
        if not any(_repeats(tables[name].table, tables[other].table) for other in kept):
            kept.append(name)
    out: dict[str, Parsed] = {}
    for name in (name for name in tables if name in kept):
        last = next(reversed(out), "")
        table = tables[name].table
        goes_on = last and out[last].table.keys == table.keys and _steps(out[last].table).max() < _steps(table).min()
        out |= {last: out[last].followed_by(tables[name])} if goes_on else {name: tables[name]}
    return out


def _repeats(one: Table, other: Table) -> bool:
    """Whether every row of a table is in another, up to rounding, as far as they have the same columns."""
    known = {normal(key): key for key in other.keys}
    shared = {key: known[normal(key)] for key in one.keys if normal(key) in known}
    order = np.argsort(step := _steps(other), kind="stable")
    same = order[np.searchsorted(step[order], _steps(one)).clip(max=other.n - 1)]
    return bool(names_reward(shared) and np.array_equal(step[same], _steps(one))) and all(
        np.allclose(one.column(key), other.column(their)[same], rtol=1e-3, atol=1e-5, equal_nan=True)
        for key, their in shared.items()
    )


def _steps(table: Table) -> np.ndarray:
    return table.column(next(key for key in table.keys if normal(key) in _STEPS))


def _rows(table: str) -> Iterator[list[str]]:
    """The cells of each row, of bounded length and without other tags than those of cells."""
    starts = [x.start() for x in _ROW.finditer(table)][: _MAX_ROWS + 1]
    for start, end in zip(starts, [*starts[1:], len(table)], strict=True):
        row = _TAG.sub(lambda tag: f"<{tag[1]}{tag[2]}>" if tag[2] else "", table[start : min(end, start + _MAX_ROW)])
        cells = (x[1][:_MAX_CELL] for x in islice(_CELL.finditer(_STRAY.sub("&lt;", row)), _MAX_COLUMNS))
        yield [" ".join(unescape(cell).split()) for cell in cells]


def _metrics(rows: Iterable[list[str]]) -> list[Parsed]:
    """The table of these rows, where it is one of metrics by step; rows without a step are left out."""
    names, *cells = [row for row in rows if row] or [[]]
    if not _is_heading(names):
        return []
    step = next(i for i, name in enumerate(names) if normal(name) in _STEPS)
    runs = [[row[i] for row in cells if i < len(row)] for i, name in enumerate(names) if normal(name) in RUN_KEYS]
    if any(len({*words}) == len(words) for words in runs):
        return []  # results of runs, one a row
    kept = [row for row in cells if len(row) == len(names) and math.isfinite(to_float(row[step]))]
    columns: dict[str, list[str]] = {}
    for i, name in enumerate(names):
        if name and name not in columns:
            columns[name] = [row[i] for row in kept]
    columns = _with_evaluations(columns)
    columns.setdefault("kind", [row[step].partition(" (")[2].rstrip(")") for row in kept])  # as in "20 (val)"
    return [Parsed(parted(columns))] if len(kept) >= _LEAST else []


def _with_evaluations(columns: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Columns, of which those of percentages that rows without a train reward have too are named as evaluations."""
    reward = next(name for name in columns if names_reward((name,)))
    unrewarded = [i for i, cell in enumerate(columns[reward]) if math.isnan(to_float(cell))]

    def scores(cells: Sequence[str]) -> bool:
        written = [cell for cell in cells if math.isfinite(to_float(cell))]
        return any("%" in cells[i] for i in unrewarded) and all("%" in cell for cell in written)

    return {f"eval/{name}/accuracy" if scores(cells) else name: cells for name, cells in columns.items()}


_SUFFIXES = (".md", ".markdown", ".html", ".htm", ".mdx", ".qmd")
_PAGE = ("<!doctype html", "<html", "<div", "<table", "<p", "<style")


@lru_cache(maxsize=1)
def _tables_in(page: str) -> tuple[Parsed, ...]:
    """The tables of metrics in a page, found once for its evidence and its rows."""
    return tuple(html_tables(page) or text_tables(page))


def _sniff_marked_table(source: Source) -> Evidence | None:
    """Recognizes a page with a table of metrics, by its ending or its beginning."""
    marked = source.path.suffix.lower() in _SUFFIXES or source.head.lstrip()[:20].lower().startswith(_PAGE)
    found = _tables_in(source.text) if marked else text_tables(source.head)
    if not found:
        return None
    return Evidence(2 if marked else 1, sum(x.table.n for x in found))


def _read_marked_table(source: Source, wanted: str | None) -> Parsed:
    """The rows of the only table of metrics, or of the one that was chosen."""
    found = _runs_in(_named(_tables_in(source.text), "table", {}))
    if not found:
        raise LogReadError(
            f"expected a table with a column step and one of rewards in the page, found none; choose another {MENDING}",
            mended_by=Argument("format"),
        )
    return _chosen(found, wanted)


def _chosen(found: Mapping[str, Parsed], wanted: str | None) -> Parsed:
    """The training that was chosen, else the only one, else the clearly main one with a note on the others."""
    name = main_run({name: x.table.n for name, x in found.items()}) if len(found) > 1 and wanted is None else None
    if name is None:
        return found[chosen_run([RunName(name, _contents(x.table)) for name, x in found.items()], wanted).name]
    others = [f"{other} ({_contents(x.table)})" for other, x in found.items() if other != name]
    return found[name].noted(f"{name} has ten times the rows of any other; left out: {listed(others, 6)}")


def _tables_without_rewards(text: str) -> list[str]:
    """Columns and rows of the tables by step in a page or a text that have no column of rewards, in words."""
    found = [(names, n) for names, n in _plain_tables(text) if any(normal(name) in _STEPS for name in names)]
    return [f"a table of {listed(names, 6)} ({counted(n, 'row')}) without rewards" for names, n in found[:_SHOWN]]


def _plain_tables(text: str) -> Iterator[tuple[list[str], int]]:
    """Names of columns and number of rows of tables in HTML and between bars."""
    for part in re.split(r"(?i)<table\b", text)[1:]:
        names, *rows = [*_rows(part.partition("</table")[0])] or [[]]
        yield names, len(rows)
    names: list[str] = []
    n = 0
    for line in [*text.split("\n")[:_MAX_ROWS], ""]:
        cells = _between_boxes(line)
        n += bool(names) and len(cells) == len(names)
        if len(cells) != len(names):
            if len(names) > 1 and n > _LEAST:
                yield names, n - 1  # without the rule below the names
            names, n = cells, 0


def _contents(table: Table) -> str:
    """Description of a table, for a choice among several."""
    if not any(normal(key) in _STEPS for key in table.keys):
        return counted(table.n, "row")
    step = _steps(table)
    reward = table.column(next(key for key in table.keys if names_reward((key,))))
    return f"steps {step.min():g} to {step.max():g}, reward {reward[0]:.4g} to {reward[-1]:.4g}"


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
    """Recognizes an object with cells, by the ending of its name or by its fields."""
    if source.head.lstrip()[:1] != "{":
        return None
    if source.path.suffix.lower() == ".ipynb" or sum(mark in source.head for mark in _MARK) >= 2:
        return Evidence(3)
    return None


def _read_notebook(source: Source, wanted: str | None) -> Parsed:
    """The rows of the only training among the outputs, or of the one that was chosen."""
    cells = list(_notebook_cells(load_json(source)))
    found: dict[str, Parsed] = {}
    for cell in cells:
        found |= _named(html_tables(cell.html) or text_tables(cell.plain), cell.name, cell.config)
    found = _runs_in(found)
    if not found:
        found = {cell.name: x for cell in cells if (x := _of_text(cell, source.path)) is not None}
    if not found:
        without = [x for cell in cells for x in _tables_without_rewards(cell.html or cell.plain)]
        saw = f", but {listed(without, 3)}" if without else ""
        raise LogReadError(
            f"expected a progress table or printed metrics in the outputs of the notebook, found none in "
            f"{len(cells)} cells with an output{saw}; run it and save it with its outputs, or pass trainer_state.json"
        )
    return _chosen(found, wanted)


def _notebook_cells(document: Any) -> Iterator[_Cell]:
    """Cells with an output, with what was configured up to them."""
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise LogReadError("expected a notebook with a list of cells, found none; save it in format 4")
    config: dict[str, Any] = {}
    for number, cell in enumerate(cells[:_MAX_CELLS], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        config |= _literals(_text(cell.get("source")))
        outputs = [x for x in cell.get("outputs") or () if isinstance(x, dict)]
        data = [x["data"] for x in outputs if isinstance(x.get("data"), dict)]
        html, plain = ("\n".join(_text(x.get(kind)) for x in data) for kind in ("text/html", "text/plain"))
        printed = "".join(_text(x.get("text")) for x in outputs if x.get("output_type") == "stream")
        if outputs:
            yield _Cell(f"cell {number}", html, plain, printed, dict(config))


def _text(value: Any) -> str:
    """Text, which a notebook keeps whole or as a list of lines."""
    if isinstance(value, list):
        return "".join(x for x in value if isinstance(x, str))
    return value if isinstance(value, str) else ""


def _of_text(cell: _Cell, notebook: Path) -> Parsed | None:
    """A cell's output by a reader of console text; None where it holds no training."""
    text = cell.printed if names_reward((cell.printed,)) else cell.plain
    if not names_reward((text,)):
        return None
    part = Source(notebook.with_suffix(".log"), text.encode())
    try:
        reader = pick_reader(part)
        if reader.name not in _PRINTED:
            return None
        parsed = reader.read(part, None)
    except LogReadError:
        return None
    if parsed.table.n < _LEAST or not names_reward(parsed.table.keys):
        return None
    return _configured(parsed, cell.config, f"read from the output of {cell.name} as {reader.name}")


def _named(tables: Sequence[Parsed], place: str, config: dict[str, Any]) -> dict[str, Parsed]:
    """Tables by the name of their place."""
    named = {f"{place} {i}" if len(tables) > 1 else place: x for i, x in enumerate(tables, 1)}
    notes = {name: f"read from {name}, a table of {counted(x.table.n, 'row')}" for name, x in named.items()}
    return {name: _configured(x, config, notes[name]) for name, x in named.items()}


def _configured(parsed: Parsed, config: dict[str, Any], note: str) -> Parsed:
    """Rows with the settings of the code up to their cell."""
    more = (f"settings in the notebook's code: {listed(config, 8)}",) if config else ()
    return replace(parsed, config={**config, **parsed.config}, notes=(note, *parsed.notes, *more))


def _literals(code: str) -> dict[str, Any]:
    """Literals among the arguments of a configuration's call; nothing where the code cannot be parsed."""
    if len(code) > _MAX_CODE or not any(name in code for name in _CONFIGS):
        return {}
    lines = ("pass" if line.lstrip()[:1] in ("!", "%") else line for line in code.split("\n"))
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, Any] = {}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
        for argument in call.keywords if name.endswith(_CONFIGS) else ():
            value = argument.value.value if isinstance(argument.value, ast.Constant) else None
            if argument.arg and (isinstance(value, str) or to_float(value) == to_float(value)):
                found[argument.arg] = value
    return found


READERS = (
    Reader(
        "marked_table",
        _sniff_marked_table,
        _read_marked_table,
        takes_run=True,
        other_tables=lambda source: _tables_without_rewards(source.text),
    ),
    Reader("notebook", _sniff_notebook, _read_notebook, takes_run=True),
)
