"""A project of Trackio: an SQLite file whose rows hold their metrics as JSON."""

from __future__ import annotations

from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean, counted
from bayes_grpo.logs.jsontext import parse_line
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions, RunName
from bayes_grpo.logs.pick import chosen_run
from bayes_grpo.logs.run_config import flat_config
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import TableBuilder
from bayes_grpo.stores.sqlite_copy import DatabaseTables, has_columns, opened

NAME = "trackio"

_TABLES = {"metrics": ("run_name", "step", "metrics")}


def sniff(source: Source) -> Evidence | None:
    """Recognises the columns of the table of metrics."""
    return Evidence(3, "a database of Trackio") if has_columns(source.tables, _TABLES) else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of one run, with its configuration; its own counter is ``_step``."""
    with opened(source.data, source.beside) as tables:
        found = _runs(tables)
        run = found[chosen_run(found, options.run)]
        ids = "run_id" in tables.columns["metrics"]
        which = {"run_id": run.id} if ids else {"run_name": run.id}
        builder, unread = TableBuilder(), 0
        for step, encoded in tables.rows("metrics", ("step", "metrics"), **which):
            row = _mapping(encoded)
            if row is None:
                unread += 1
                continue
            builder.add({**row, "_step": step})
        config: dict[str, Any] = {}
        if "configs" in tables.columns:
            own = which if set(which) <= set(tables.columns["configs"]) else {"run_name": run.name}
            for (encoded,) in tables.rows("configs", ("config",), **own):
                config |= _mapping(encoded) or {}
        notes = [tables.broken] if tables.broken else []
        if unread:
            notes.append(f"{counted(unread, 'row')} whose metrics are no JSON object left out")
        return Parsed(builder.build(), flat_config(config), notes=tuple(notes), run_name=run.name)


def runs(source: Source) -> list[RunName]:
    """The runs of the project."""
    with opened(source.data, source.beside) as tables:
        return _runs(tables)


def _runs(tables: DatabaseTables) -> list[RunName]:
    if not has_columns(tables.columns, _TABLES):
        raise LogReadError(
            f"expected a database of Trackio with a table metrics, found the tables "
            f"{clean(', '.join(tables.columns))}; pass PROJECT.db of Trackio"
        )
    ids = "run_id" if "run_id" in tables.columns["metrics"] else "run_name"
    found: dict[str, RunName] = {}
    for name, key in tables.rows("metrics", ("run_name", ids)):
        if isinstance(key, str):
            found.setdefault(key, RunName(str(name), key))
    if not found:
        raise LogReadError(
            f"expected runs in the database of Trackio, found none{f': {tables.broken}' if tables.broken else ''}; "
            f"wait for the first logged row"
        )
    return list(found.values())


def _mapping(encoded: Any) -> dict[str, Any] | None:
    """The object in a column, which holds text or bytes."""
    if isinstance(encoded, bytes):
        encoded = encoded.decode("utf-8", errors="replace")
    value = parse_line(encoded) if isinstance(encoded, str) else None
    return value if isinstance(value, dict) else None
