"""Fields of protobuf messages as they lie in a store's records, without the messages' definitions.

Layout: https://protobuf.dev/programming-guides/encoding/. A message is a row of fields; a field is a number, a wire
type and a value. Nothing is built but numbers and slices of the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_SHIFT = 63  # of the ten bytes that the longest varint has
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")

type Value = int | float | bytes
"""A varint, a number of four or eight bytes (all of them are floats in these stores), or bytes."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length and the place after it; a `ValueError` where it does not end."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > _MAX_SHIFT:
            raise ValueError("a number that does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Number and value of every field in a message, in file order; a `ValueError` where the bytes are none."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key >= 0x80:
            key, at = varint(data, at - 1)
        wire = key & 7
        if wire == _VARINT:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            size, at = (data[at], at + 1) if at < end and data[at] < 0x80 else varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if size > end - at:
            raise ValueError("a field longer than its message")
        content = data[at : at + size]
        at += size
        number = content if wire == _BYTES else (_DOUBLE if wire == _FIXED64 else _FLOAT).unpack(content)[0]
        yield key >> 3, number


def message(data: Value | None) -> dict[int, Value]:
    """Number → last value of the fields in a message; nothing where there is no message."""
    return dict(fields(data)) if isinstance(data, bytes) else {}


def text(value: Value | None) -> str:
    """A field of bytes as text; "" where it is none."""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else ""


def signed(value: Value) -> int:
    """A varint as a signed number of 64 bits."""
    if not isinstance(value, int):
        raise ValueError("bytes in the place of a number")
    return value - (1 << 64) if value >= 1 << 63 else value
