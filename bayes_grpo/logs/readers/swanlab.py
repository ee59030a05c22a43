"""A run of SwanLab as it lies on disk: ``swanlog/run-*/run-ID.swanlab`` with ``files/config.yaml`` beside it."""

from __future__ import annotations

from collections.abc import Iterator

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions, RunName
from bayes_grpo.logs.run_config import flat_config
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.store_rows import Points
from bayes_grpo.stores.companions import SWANLAB_CONFIG
from bayes_grpo.stores.damage import Damage
from bayes_grpo.stores.leveldb_log import leveldb_records
from bayes_grpo.stores.protobuf import BYTES, FIXED64, double_of_bytes, fields, signed, text
from bayes_grpo.stores.safe_yaml import settings_in

NAME = "swanlab"

_MAGIC = b":SWL"
_START, _SCALAR = 10, 13
"""Fields of a record."""
_KEY, _STEP, _VALUE = 1, 2, 5
_EXPERIMENT, _RUN_ID = 4, 10


def sniff(source: Source) -> Evidence | None:
    """Recognises the first four bytes."""
    return Evidence(3, "a .swanlab file") if source.data.startswith(_MAGIC) else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Scalars joined into rows, with the run's name and configuration."""
    damage, points, name = Damage(), Points(), ""
    for number, content in _contents(source.data, damage):
        if number == _START:
            name = _named(content).name
            continue
        try:
            _add(points, content)
        except ValueError:
            damage.at(1)
    stated = settings_in(source.beside.get(SWANLAB_CONFIG, b"").decode("utf-8", errors="replace"))
    config = {k: v["value"] if isinstance(v, dict) and "value" in v else v for k, v in stated.items()}
    table = points.table()
    if not table.n:
        raise damage.nothing("the .swanlab file")
    return Parsed(table, flat_config(config), notes=damage.notes(), run_name=name)


def runs(source: Source) -> list[RunName]:
    """The one run of the file."""
    found = next((_named(c) for n, c in _contents(source.data, Damage()) if n == _START), RunName("", ""))
    key = found.id or source.path.stem.removeprefix("run-")
    return [RunName(found.name or key, key)]


def _contents(data: bytes, damage: Damage) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of what the records hold that is of use."""
    if not data.startswith(_MAGIC):
        raise LogReadError("expected a .swanlab file, found another beginning; pass run-ID.swanlab")
    for record in leveldb_records(data, damage):
        try:
            for number, wire, content in fields(record):
                if number in (_START, _SCALAR) and wire == BYTES and isinstance(content, bytes):
                    yield number, content
        except ValueError:
            damage.at(1)


def _named(start: bytes) -> RunName:
    try:
        found = {number: text(value) for number, wire, value in fields(start) if wire == BYTES}
    except ValueError:
        found = {}
    return RunName(found.get(_EXPERIMENT, ""), found.get(_RUN_ID, ""))


def _add(points: Points, scalar: bytes) -> None:
    """One metric; without a step it belongs to step 0, and a number that is not written is 0."""
    key, step, value = "", 0, None
    for number, wire, content in fields(scalar):
        if number == _KEY and wire == BYTES:
            key = text(content)
        elif number == _STEP and wire != BYTES:
            step = signed(content)
        elif number == _VALUE and wire == BYTES and isinstance(content, bytes):
            value = 0.0
            for _, kind, inner in fields(content):
                if kind == FIXED64:
                    value = double_of_bytes(inner)
    if key and value is not None:
        points.add(step, key, value)
