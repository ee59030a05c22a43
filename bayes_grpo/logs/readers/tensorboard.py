"""Event files of TensorBoard, by whatever package wrote them: ``events.out.tfevents.*``.

An event (``event.proto``) holds a step and a summary, the summary tagged values: a number by itself, or a tensor.
Settings are text that is JSON (transformers writes its arguments so) or the session of the plugin for hyperparameters.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs.jsontext import parse_line
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.run_config import flat_config
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.store_rows import Points
from bayes_grpo.stores import tfrecord
from bayes_grpo.stores.damage import Damage
from bayes_grpo.stores.protobuf import BYTES, FIXED32, FIXED64, VARINT, double_of_bytes, fields, message, signed, text

NAME = "tensorboard"

_STEP, _SUMMARY = 2, 5
"""Fields of an event."""
_VALUE, _TAG, _SIMPLE, _TENSOR, _METADATA = 1, 1, 2, 8, 9
_DTYPE, _CONTENT, _FLOATS, _DOUBLES, _STRINGS = 1, 4, 5, 6, 8
_FLOAT, _DOUBLE = 1, 2
_PLUGIN, _PLUGIN_CONTENT = 1, 2
_SESSION, _SETTING = 3, 1
_SETTINGS_TAG = "_hparams_/session_start_info"
_SIMPLE_END = b"\x15"  # the key of a number by itself, with four bytes behind it at the end of an event


def sniff(source: Source) -> Evidence | None:
    """Recognises a length with its right checksum."""
    return Evidence(3, "an event file of TensorBoard") if tfrecord.starts(source.data) else None


class _Value(NamedTuple):
    tag: str
    number: float | None
    config: dict[str, Any]


def read(source: Source, options: ReadOptions) -> Parsed:
    """Scalars joined into rows, with the settings among the texts."""
    if not tfrecord.starts(source.data):
        raise LogReadError("expected an event file of TensorBoard, found another beginning; pass events.out.tfevents.*")
    damage, points = Damage(), Points()
    config: dict[str, Any] = {}
    # Nearly all events are one number: what stands before its four bytes repeats, so its tag is looked up.
    tags: dict[bytes, str] = {}
    for event in tfrecord.tfrecord_records(source.data, damage):
        try:
            step, summary = 0, b""
            for number, wire, content in fields(event):
                if number == _STEP and wire == VARINT:
                    step = signed(content)
                elif number == _SUMMARY and wire == BYTES and isinstance(content, bytes):
                    summary = content
            known = tags.get(summary[:-4])
            if known is not None:
                points.add(step, known, struct.unpack("<f", summary[-4:])[0])
                continue
            found = [
                _value(v) for n, wire, v in fields(summary) if n == _VALUE and wire == BYTES and isinstance(v, bytes)
            ]
            for value in found:
                config |= value.config
                if value.number is not None:
                    points.add(step, value.tag, value.number)
            if len(found) == 1 and found[0].number is not None and _ends_in_simple(summary):
                tags[summary[:-4]] = found[0].tag
        except ValueError:
            damage.at(1)
    table = points.table()
    if not table.n and not config:
        raise damage.nothing("the event file")
    return Parsed(table, flat_config(config), notes=damage.notes())


def _ends_in_simple(summary: bytes) -> bool:
    """Whether the last field of the only value of a summary is a number by itself."""
    last = [wire for _, wire, _ in fields(message(summary, _VALUE) or b"")]
    return summary[-5:-4] == _SIMPLE_END and bool(last) and last[-1] == FIXED32


def _value(value: bytes) -> _Value:
    tag, number, tensor, metadata = "", None, b"", b""
    for field, wire, content in fields(value):
        if field == _TAG and wire == BYTES:
            tag = text(content)
        elif field == _SIMPLE and wire == FIXED32 and isinstance(content, bytes):
            number = struct.unpack("<f", content)[0]
        elif field == _TENSOR and isinstance(content, bytes):
            tensor = content
        elif field == _METADATA and isinstance(content, bytes):
            metadata = content
    config: dict[str, Any] = {}
    if tag == _SETTINGS_TAG:
        config = _session(metadata)
    elif tensor:
        number, words = _tensor(tensor)
        stated = parse_line(words) if words.lstrip().startswith("{") else None
        config = stated if isinstance(stated, dict) else {}
    return _Value(tag, number, config)


def _tensor(tensor: bytes) -> tuple[float | None, str]:
    """The number or the text in a tensor of one entry."""
    kind, raw, words = 0, b"", ""
    numbers: list[bytes] = []
    for field, wire, content in fields(tensor):
        if field == _DTYPE and isinstance(content, int):
            kind = content
        elif field == _CONTENT and isinstance(content, bytes):
            raw = content
        elif field in (_FLOATS, _DOUBLES) and wire in (BYTES, FIXED32, FIXED64) and isinstance(content, bytes):
            numbers.append(content)
        elif field == _STRINGS and wire == BYTES:
            words = text(content)
    data = raw or b"".join(numbers)
    if kind == _FLOAT and len(data) == 4:
        return struct.unpack("<f", data)[0], ""
    if kind == _DOUBLE and len(data) == 8:
        return struct.unpack("<d", data)[0], ""
    return None, words


def _session(metadata: bytes) -> dict[str, Any]:
    """Settings of the plugin for hyperparameters: number, text or truth value by name."""
    session = message(message(message(metadata, _PLUGIN) or b"", _PLUGIN_CONTENT) or b"", _SESSION) or b""
    found: dict[str, Any] = {}
    for number, wire, entry in fields(session):
        if number != _SETTING or wire != BYTES or not isinstance(entry, bytes):
            continue
        key, value = "", None
        for field, kind, content in fields(entry):
            if field == 1 and kind == BYTES:
                key = text(content)
            elif field == 2 and isinstance(content, bytes):
                value = next((_plain(k, c) for _, k, c in fields(content)), None)
        if key and value is not None:
            found[key] = value
    return found


def _plain(wire: int, content: int | bytes) -> float | str | bool:
    if wire == FIXED64:
        return double_of_bytes(content)
    return text(content) if wire == BYTES else bool(content)
