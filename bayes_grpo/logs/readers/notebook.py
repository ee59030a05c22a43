"""A Jupyter notebook: the training is in the outputs of a cell, as a progress table or as printed text.

The table of transformers, which TRL and Unsloth show, is HTML. Printed dicts and lines go to the readers of console
text. Settings are the literals that a call of a ``…Config`` in the cells names; no code is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import listed
from bayes_grpo.logs.console import names_reward
from bayes_grpo.logs.jsontext import load_json
from bayes_grpo.logs.marked_tables import MarkedTable, described, html_tables, plain_tables, runs_in_tables
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions, RunName
from bayes_grpo.logs.pick import chosen_run
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import to_float

NAME = "notebook"

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


class _Training(NamedTuple):
    name: str
    parsed: Parsed


def sniff(source: Source) -> Evidence | None:
    """Recognises an object with cells, by the ending of its name or by its fields."""
    if source.head.lstrip()[:1] != "{":
        return None
    if source.path.suffix.lower() == ".ipynb" or sum(mark in source.head for mark in _MARK) >= 2:
        return Evidence(3, "a notebook")
    return None


def read(source: Source, options: ReadOptions) -> Parsed:
    """The rows of the only training among the outputs, or of the one that was chosen."""
    document = load_json(source)
    cells = list(_cells(document))
    tables: list[MarkedTable] = []
    for cell in cells:
        shown = html_tables(cell.html, cell.name) or plain_tables(cell.plain, cell.name)
        tables += shown
    found = [_of_table(x, cells) for x in runs_in_tables(tables)]
    if not found:
        found = [x for cell in cells if (x := _of_text(cell, source, options)) is not None]
    if not found:
        raise LogReadError(
            f"expected a progress table or printed metrics in the outputs of the notebook, found none in "
            f"{len(cells)} cells with an output; run it and save it with its outputs, or pass trainer_state.json"
        )
    return found[chosen_run([RunName(x.name, x.name) for x in found], options.run)].parsed


def _cells(document: Any) -> Iterator[_Cell]:
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


def _of_table(table: MarkedTable, cells: list[_Cell]) -> _Training:
    config = next((c.config for c in cells if f"{table.place} ".startswith(f"{c.name} ")), {})
    notes = (f"read from {described(table)}", *_said(config))
    return _Training(table.place, Parsed(table.table(), config, total_steps=table.planned, notes=notes))


def _of_text(cell: _Cell, source: Source, options: ReadOptions) -> _Training | None:
    """What a reader of console text makes of a cell's output; None where it holds no training."""
    from bayes_grpo.logs.detect import pick_reader  # which knows this reader too

    text = cell.printed if names_reward((cell.printed,)) else cell.plain
    if not names_reward((text,)):
        return None
    part = Source(source.path.with_suffix(".log"), text.encode())
    try:
        reader = pick_reader(part)
        if reader.NAME not in _PRINTED:
            return None
        parsed = reader.read(part, options)
    except LogReadError:
        return None
    if parsed.table.n < 2 or not names_reward(parsed.table.keys):
        return None
    notes = (f"read from the output of {cell.name} as {reader.NAME}", *parsed.notes, *_said(cell.config))
    total = parsed.total_steps
    return _Training(
        cell.name,
        Parsed(parsed.table, {**cell.config, **parsed.config}, total, parsed.logging_steps, parsed.trainer, notes),
    )


def _said(config: dict[str, Any]) -> tuple[str, ...]:
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
