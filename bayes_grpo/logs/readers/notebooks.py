"""Jupyter notebooks: progress tables in the outputs, what cells print, and settings in the code.

The text is untrusted. Settings are the literals that a call of a ``…Config`` in the cells names; no code is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import listed
from bayes_grpo.logs.cells import LEAST_IN_TABLE
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source
from bayes_grpo.logs.lines import names_reward
from bayes_grpo.logs.picking import pick_reader
from bayes_grpo.logs.readers.json_text import load_json
from bayes_grpo.logs.readers.pages import (
    chosen_table,
    named,
    other_tables,
    runs_in,
    tables_in,
    with_code,
)
from bayes_grpo.logs.table import to_float

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
        found |= named(tables_in(cell.html) or tables_in(cell.plain), cell.name, cell.config)
    found = runs_in(found)
    if not found:
        found = {cell.name: x for cell in cells if (x := _of_text(cell, source.path)) is not None}
    if not found:
        without = [x for cell in cells for x in other_tables(cell.html or cell.plain)]
        saw = f", but {listed(without, 3)}" if without else ""
        raise LogReadError(
            f"expected a progress table or printed metrics in the outputs of the notebook, found none in "
            f"{len(cells)} cells with an output{saw}; run it and save it with its outputs, or pass trainer_state.json"
        )
    return chosen_table(found, wanted)


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
    if parsed.table.n < LEAST_IN_TABLE or not names_reward(parsed.table.keys):
        return None
    return with_code(parsed, cell.config, f"read from the output of {cell.name} as {reader.name}")


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


READERS = (Reader("notebook", _sniff_notebook, _read_notebook, takes_run=True),)
