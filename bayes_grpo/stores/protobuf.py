"""Fields of protobuf messages as they lie in a store's records, without the messages' definitions.

Layout: https://protobuf.dev/programming-guides/encoding/. A message is a row of fields; a field is a number, a wire
type and a value. Nothing is built but integers and slices of the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

_MAX_SHIFT = 63  # of the ten bytes that the longest varint has


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length and the place behind it.

    Raises:
        ValueError: It does not end.
    """
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


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of every field in a message, in file order.

    A value is an integer for `VARINT`, else its bytes.

    Raises:
        ValueError: The bytes are no message.
    """
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key >= 0x80:
            key, at = varint(data, at - 1)
        wire = key & 7
        if wire == BYTES:
            if at < end and data[at] < 0x80:
                size, at = data[at], at + 1
            else:
                size, at = varint(data, at)
        elif wire == VARINT:
            value, at = varint(data, at)
            yield key >> 3, wire, value
            continue
        elif wire == FIXED64:
            size = 8
        elif wire == FIXED32:
            size = 4
        else:
            raise ValueError(f"wire type {wire}")
        if size > end - at:
            raise ValueError("a field longer than its message")
        yield key >> 3, wire, data[at : at + size]
        at += size


def message(data: bytes, number: int) -> bytes | None:
    """The last field of a number that holds bytes, None where there is none.

    Raises:
        ValueError: The bytes are no message.
    """
    found = None
    for n, wire, value in fields(data):
        if n == number and wire == BYTES:
            found = value
    return found if isinstance(found, bytes) else None


def text(value: int | bytes) -> str:
    """A field of bytes as text."""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def double_of_bytes(value: int | bytes) -> float:
    """A field of eight bytes as a number."""
    return struct.unpack("<d", value)[0] if isinstance(value, bytes) else float(value)


def signed(value: int | bytes) -> int:
    """A varint as a signed number of 64 bits."""
    if not isinstance(value, int):
        raise ValueError("bytes in the place of a number")
    return value - (1 << 64) if value >= 1 << 63 else value
