"""Files that trackers append to: event files of TensorBoard and ``run-ID.wandb``.

The first holds events (``event.proto``): a step and a summary of tagged values, a number or a tensor; settings are
text that is JSON or the session of the plugin for hyperparameters. The second holds records
(``wandb_internal.proto``): the run with its configuration, changes of it, rows of the history.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, RunName, Source
from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.options import flat_config
from bayes_grpo.logs.readers.json_text import parse_line
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import identify
from bayes_grpo.stores.records import (
    WANDB,
    Damage,
    Value,
    fields,
    leveldb_records,
    message,
    signed,
    starts_record,
    text,
    tfrecord_records,
)  # fmt: skip

type Points = list[tuple[float, str, float]]
"""Step, key and value of metrics in the order in which they were written."""


def rows_of_points(points: Points) -> Table:
    """Rows in the order of their first metric: metrics of one step are one row.

    A metric that a step already has opens a new row of that step: it is a part of the step or a resumed training.
    Where the trainer counts rollouts and updates on steps of their own, each kind of key has rows of its own.
    """
    keys = dict.fromkeys((key for _, key, _ in points), 0.0)
    trainer = identify(KeyIndex(Table.from_rows([keys])))
    counters = (*trainer.steps[0], *trainer.rollouts) if trainer.rollouts else ()
    axes = [counter.partition("/")[0] for counter in counters if counter not in keys]
    axis_of = {key: next((axis for axis in axes if key.startswith(f"{axis}/")), "") for key in keys}
    counter = "_step" if "step" in keys else "step"
    rows: list[dict[str, float]] = []
    current: dict[tuple[str, float], dict[str, float]] = {}
    for step, key, value in points:
        axis = axis_of[key]
        row = current.get((axis, step))
        if row is None or key in row:
            row = {f"{axis}/step": step} if axis else {counter: step}
            current[axis, step] = row
            rows.append(row)
        row[key] = value
    return Table.from_rows(rows)


_STEP, _SUMMARY = 2, 5
"""Fields of an event."""
_VALUE, _TAG, _SIMPLE, _TENSOR, _METADATA = 1, 1, 2, 8, 9
_DTYPE, _CONTENT, _FLOATS, _DOUBLES, _STRINGS = 1, 4, 5, 6, 8
_NUMBERS = {1: "<f", 2: "<d"}
"""Type of a tensor → how its number is written."""
_PLUGIN, _PLUGIN_CONTENT = 1, 2
_SESSION, _SETTING = 3, 1
_SETTINGS_TAG = "_hparams_/session_start_info"
_SIMPLE_END = b"\x15"  # the key of a number by itself, with four bytes behind it at the end of an event


def _read_tensorboard(source: Source, wanted: str | None) -> Parsed:
    """Scalars joined into rows, with the settings among the texts."""
    if not starts_record(source.data):
        raise LogReadError("expected an event file of TensorBoard, found another beginning; pass events.out.tfevents.*")
    damage = Damage()
    points: Points = []
    config: dict[str, Any] = {}
    # Nearly all events are one number: what stands before its four bytes repeats, so its tag is looked up.
    tags: dict[bytes, str] = {}
    for record in tfrecord_records(source.data, damage):
        try:
            event = message(record)
            step, summary = signed(event.get(_STEP, 0)), event.get(_SUMMARY)
            if not isinstance(summary, bytes):
                continue
            known = tags.get(summary[:-4])
            if known is not None:
                points.append((step, known, struct.unpack("<f", summary[-4:])[0]))
                continue
            values = [message(value) for number, value in fields(summary) if number == _VALUE]
            for value in values:
                tag, number = text(value.get(_TAG)), value.get(_SIMPLE)
                if tag == _SETTINGS_TAG:
                    config |= _session(value.get(_METADATA))
                elif _TENSOR in value:
                    number, words = _tensor(value[_TENSOR])
                    logged = parse_line(words) if words.lstrip().startswith("{") else None
                    config |= logged if isinstance(logged, dict) else {}
                if isinstance(number, float):
                    points.append((step, tag, number))
            if len(values) == 1 and list(values[0])[-1:] == [_SIMPLE] and summary[-5:-4] == _SIMPLE_END:
                tags[summary[:-4]] = text(values[0].get(_TAG))
        except ValueError:
            damage.places += 1
    table = rows_of_points(points)
    if not table.n and not config:
        raise damage.nothing("the event file")
    return Parsed(table, flat_config(config), notes=damage.notes())


def _tensor(tensor: Value) -> tuple[float | None, str]:
    """The number or the text in a tensor of one entry."""
    found = message(tensor)
    number = found.get(_CONTENT, found.get(_FLOATS, found.get(_DOUBLES)))
    form = _NUMBERS.get(int(found.get(_DTYPE, 0)))
    if form and isinstance(number, bytes):
        number = struct.unpack(form, number)[0] if len(number) == struct.calcsize(form) else None
    return (number if isinstance(number, float) else None), text(found.get(_STRINGS))


def _session(metadata: Value | None) -> dict[str, Any]:
    """Settings of the plugin for hyperparameters: number, text or truth value by name."""
    session = message(message(message(metadata).get(_PLUGIN)).get(_PLUGIN_CONTENT)).get(_SESSION)
    found: dict[str, Any] = {}
    for number, entry in fields(session) if isinstance(session, bytes) else ():
        setting = message(entry) if number == _SETTING else {}
        for value in message(setting.get(2)).values():
            plain = text(value) if isinstance(value, bytes) else value if isinstance(value, float) else bool(value)
            found.setdefault(text(setting.get(1)), plain)
    return {key: value for key, value in found.items() if key}


_HISTORY, _RUN, _CONFIG = 2, 17, 18
_RUN_ID, _RUN_CONFIG, _RUN_NAME = 1, 4, 8
_ITEM = 1
_KEYS, _JSON = (1, 2), 16


def _runs_wandb(source: Source) -> list[RunName]:
    """The one run of the file, by its own name or else by the file's."""
    key = source.path.stem.removeprefix("run-")
    for number, content in _contents(source.data, Damage()):
        if number == _RUN:
            with suppress(ValueError):
                run = message(content)
                key = text(run.get(_RUN_ID)) or key
                return [RunName(text(run.get(_RUN_NAME)) or key, key)]
    return [RunName(key, key)]


def _read_wandb(source: Source, wanted: str | None) -> Parsed:
    """Rows as they were written, with the run's name and its configuration, which changes between them."""
    damage, name = Damage(), ""
    config: dict[str, Any] = {}

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal name
        for number, content in _contents(source.data, damage):
            try:
                if number == _HISTORY:
                    yield _values(content)
                elif number == _CONFIG:
                    config.update(_values(content))
                elif number == _RUN:
                    run = message(content)
                    name = text(run.get(_RUN_NAME)) or name
                    config.update(_values(run.get(_RUN_CONFIG)))
            except ValueError:
                damage.places += 1

    table = Table.from_rows(rows())
    config.pop("_wandb", None)
    if not table.n:
        raise damage.nothing("the .wandb file")
    return Parsed(table, flat_config(config), notes=damage.notes(), run_name=name)


def _contents(data: bytes, damage: Damage) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of what the records hold, as far as it is a message."""
    if not data.startswith(WANDB):
        raise LogReadError("expected a .wandb file, found another beginning; pass run-ID.wandb")
    for record in leveldb_records(data, damage):
        try:
            for number, content in fields(record):
                if isinstance(content, bytes):
                    yield number, content
        except ValueError:
            damage.places += 1


def _values(content: Value | None) -> dict[str, Any]:
    """Key → value of the items in a message; what is no JSON is left out."""
    found: dict[str, Any] = {}
    for number, value in fields(content) if isinstance(content, bytes) else ():
        if number != _ITEM or not isinstance(value, bytes):
            continue
        keys, encoded = [], b""
        for part, inner in fields(value):
            if part == _JSON and isinstance(inner, bytes):
                encoded = inner
            elif part in _KEYS:
                keys.append(text(inner))
        if keys and encoded:
            try:
                found["/".join(keys)] = float(encoded)  # nearly all values of a history
            except ValueError:
                found["/".join(keys)] = parse_line(encoded.decode("utf-8", errors="replace"))
    return found


READERS = (
    Reader("tensorboard", lambda x: Evidence(3) if starts_record(x.data) else None, _read_tensorboard),
    Reader("wandb", lambda x: Evidence(3) if x.data.startswith(WANDB) else None, _read_wandb, _runs_wandb),
)
