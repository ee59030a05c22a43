"""A run of Weights & Biases as it lies on disk, offline or not: ``wandb/*run-*/run-ID.wandb``.

The file holds protobuf records (``wandb_internal.proto``): the run with its configuration, changes of it, rows of the
history. A value is JSON text under a key or a list of nested keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs.jsontext import parse_line
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions, RunName
from bayes_grpo.logs.run_config import flat_config
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import TableBuilder
from bayes_grpo.stores.damage import Damage
from bayes_grpo.stores.leveldb_log import leveldb_records
from bayes_grpo.stores.protobuf import BYTES, fields, message, text

NAME = "wandb"

_MAGIC = b":W&B"
_HISTORY, _RUN, _CONFIG = 2, 17, 18
"""Fields of a record."""
_ITEM, _UPDATE, _REMOVE = 1, 1, 2
_KEY, _NESTED_KEY, _JSON = 1, 2, 16
_RUN_ID, _RUN_CONFIG, _DISPLAY_NAME = 1, 4, 8


def sniff(source: Source) -> Evidence | None:
    """Recognises the first four bytes."""
    return Evidence(3, "a .wandb file") if source.data.startswith(_MAGIC) else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of the history, with the run's name and configuration."""
    damage = Damage()
    builder = TableBuilder()
    config: dict[str, Any] = {}
    name = ""
    for number, content in _contents(source.data, damage):
        try:
            if number == _HISTORY:
                builder.add(_values(content, _ITEM))
            elif number == _RUN:
                name = _named(content).name or name
                config |= _values(message(content, _RUN_CONFIG) or b"", _UPDATE)
            else:
                config |= _values(content, _UPDATE)
        except ValueError:
            damage.at(1)
    config = {key: value for key, value in config.items() if key != "_wandb"}
    table = builder.build()
    if not table.n:
        raise damage.nothing("the .wandb file")
    return Parsed(table, flat_config(config), notes=damage.notes(), run_name=name)


def runs(source: Source) -> list[RunName]:
    """The one run of the file."""
    found = next((_named(c) for n, c in _contents(source.data, Damage()) if n == _RUN), RunName("", ""))
    key = found.id or source.path.stem.removeprefix("run-")
    return [RunName(found.name or key, key)]


def _contents(data: bytes, damage: Damage) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of what the records hold that is of use."""
    if not data.startswith(_MAGIC):
        raise LogReadError("expected a .wandb file, found another beginning; pass run-ID.wandb")
    for record in leveldb_records(data, damage):
        try:
            for number, wire, content in fields(record):
                if number in (_HISTORY, _RUN, _CONFIG) and wire == BYTES and isinstance(content, bytes):
                    yield number, content
        except ValueError:
            damage.at(1)


def _named(run: bytes) -> RunName:
    try:
        found = {number: text(value) for number, wire, value in fields(run) if wire == BYTES}
    except ValueError:
        found = {}
    return RunName(found.get(_DISPLAY_NAME, ""), found.get(_RUN_ID, ""))


def _values(content: bytes, item: int) -> dict[str, Any]:
    """Key → value of the items in a message; what is no JSON is left out."""
    found: dict[str, Any] = {}
    for number, wire, value in fields(content):
        if number != item or wire != BYTES or not isinstance(value, bytes):
            continue
        keys, encoded = [], b""
        for part, kind, inner in fields(value):
            if kind != BYTES or not isinstance(inner, bytes):
                continue
            if part == _JSON:
                encoded = inner
            elif part in (_KEY, _NESTED_KEY):
                keys.append(inner.decode("utf-8", errors="replace"))
        if keys and encoded:
            found["/".join(keys)] = _value(encoded)
    return found


def _value(encoded: bytes) -> Any:
    try:
        return float(encoded)  # nearly all values of a history
    except ValueError:
        return parse_line(encoded.decode("utf-8", errors="replace"))
