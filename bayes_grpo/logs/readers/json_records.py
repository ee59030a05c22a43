"""A JSON document that holds its records somewhere: a list of them, lists of numbers, or columns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import listed
from bayes_grpo.logs.jsontext import CONFIG_NAMES, load_json, mapping_rows, parse_line, scalars_of
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, to_float

NAME = "json"

_RECORD_NAMES = (
    "log_history",
    "step_log",
    "history",
    "metrics",
    "train_metrics",
    "logs",
    "log",
    "train_log",
    "training_log",
    "steps",
    "records",
    "rows",
    "data",
    "trajectory",
)
_MAX_DEPTH = 4
_STEP = re.compile(r"\d{1,12}")
_LIST = re.compile(r'\[\s*(?:\{\s*["}]|\]\s*$|(?:-?\d[\d.eE+-]*|null)\s*(?:,|\]\s*$))')
"""A list of objects or of numbers; a console line may begin with "[" too."""


def sniff(source: Source) -> Evidence | None:
    """Recognises a document by its opening bracket, unless each line is a document of its own."""
    head = source.head.lstrip()
    if head[:1] == "[":
        return Evidence(2, "a JSON list") if _LIST.match(head) else None
    if head[:1] != "{":
        return None
    lines = [line for line in head.splitlines() if line.strip()][:2]
    if len(lines) == 2 and lines[1].lstrip().startswith("{") and isinstance(parse_line(lines[0]), dict):
        return None
    if head[1:].lstrip()[:1] not in ('"', "}"):
        return None
    return Evidence(2, "a JSON object")


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of the list of records in the document, or its lists of numbers as columns."""
    return of_document(load_json(source))


def of_document(document: Any) -> Parsed:
    """Rows of a document that is there already.

    Raises:
        LogReadError: No list of records and no list of numbers is in it.
    """
    if isinstance(document, list):
        return _from_list(document)
    if not isinstance(document, dict):
        raise LogReadError(f"expected a JSON list or object, found {type(document).__name__}; pass a log file")
    config = _scalars(document)
    records = _record_lists(document)
    if records:
        name, items = _choose(records)
        rows, notes = mapping_rows(items)
        return Parsed(Table.from_rows(rows), config, notes=(f"records read from {name!r}", *notes))
    numbered = _numbered(document)
    if numbered:
        return Parsed(Table.from_rows(numbered), notes=("the keys of the records are their steps",))
    columns = _number_lists(document)
    if columns:
        return Parsed(Table.from_columns(columns), config)
    if any(isinstance(v, int | float) for v in document.values()):
        return Parsed(Table.from_rows([document]))
    raise LogReadError(
        f"expected a list of records or a trace of rewards in the JSON object, found the keys "
        f"{listed(document)}; pass the file with the records"
    )


def _from_list(items: list[Any]) -> Parsed:
    if items and all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        return Parsed(Table.from_columns({"reward": items}), notes=("a bare list of numbers, taken for rewards",))
    rows, notes = mapping_rows(items)
    if not rows:
        raise LogReadError("expected a JSON list of records, found none in it; pass the file with the records")
    return Parsed(Table.from_rows(rows), notes=notes)


def _scalars(document: dict[str, Any]) -> dict[str, Any]:
    config = {}
    for name in CONFIG_NAMES:
        if isinstance(document.get(name), dict):
            config |= scalars_of(document[name])
    return config | scalars_of(document)


def _record_lists(document: dict[str, Any], prefix: str = "", depth: int = _MAX_DEPTH) -> dict[str, list[Any]]:
    """Lists of records, by their path in the document."""
    found = {}
    for key, value in document.items():
        if isinstance(value, list) and sum(isinstance(v, dict) for v in value[:10]) > len(value[:10]) / 2:
            found[f"{prefix}{key}"] = value
        elif isinstance(value, dict) and depth > 1:
            found |= _record_lists(value, f"{prefix}{key}.", depth - 1)
    return found


def _numbered(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Records kept under their steps, ``{"0": {"reward": 0.2}, "1": …}``; none where it is another document."""
    records = {k: v for k, v in document.items() if _STEP.fullmatch(k) and isinstance(v, dict)}
    return [{"step": int(k), **v} for k, v in records.items()] if len(records) >= max(2, len(document) - 2) else []


def _choose(records: dict[str, list[Any]]) -> tuple[str, list[Any]]:
    """The list that looks like a training log: one with a reward in it, by its usual name."""
    rewarded = {
        name: items
        for name, items in records.items()
        if any(
            "reward" in normal(str(k)) or "score" in normal(str(k))
            for r in items[:20]
            if isinstance(r, dict)
            for k in r
        )
    }
    pool = rewarded or records
    for known in _RECORD_NAMES:
        named = [name for name in pool if name.rsplit(".", 1)[-1].lower() == known]
        if len(named) == 1:
            return named[0], pool[named[0]]
    if len(pool) > 1:
        raise LogReadError(
            f"expected one list of records, found {listed(pool)}; save the one that is the training log by itself"
        )
    return next(iter(pool.items()))


def _number_lists(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Lists of numbers of the most common length, each a column."""
    columns = {
        k: v for k, v in document.items() if isinstance(v, list) and np.isfinite([to_float(x) for x in v[:50]]).any()
    }
    if not columns:
        nested = [v for v in document.values() if isinstance(v, dict)]
        return next((found for v in nested if (found := _number_lists_flat(v))), {})
    lengths = [len(v) for k, v in columns.items() if "reward" in k.lower()] or [len(v) for v in columns.values()]
    return {k: v for k, v in columns.items() if len(v) == max(lengths)}


def _number_lists_flat(document: dict[str, Any]) -> dict[str, list[Any]]:
    plain = {k: v for k, v in document.items() if not isinstance(v, dict)}
    return _number_lists(plain) if plain else {}
