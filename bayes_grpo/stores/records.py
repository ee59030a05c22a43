"""Records in the files of stores, of LevelDB's and TensorFlow's format; the protobuf messages in them; what is damaged.

Layouts: https://github.com/google/leveldb/blob/main/doc/log_format.md, of which W&B puts seven bytes before
the first chunk, counts them as part of its block, and takes the plain CRC-32 of type and bytes;
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details with masked CRC-32C;
https://protobuf.dev/programming-guides/encoding/, of which nothing is built but numbers and slices of the bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import counted


@dataclass
class Damage:
    """What a reader leaves out: damaged places, and the bytes of a last record that is cut, as while a run goes on."""

    cut: int = 0
    places: int = 0

    def nothing(self, what: str) -> LogReadError:
        """The error of a file without a row, which is called so in words."""
        lost = "".join(f" ({note})" for note in self.notes())
        return LogReadError(f"expected rows of metrics in {what}, found none{lost}; wait for the first logged row")

    def notes(self) -> tuple[str, ...]:
        """The counts in words."""
        notes = []
        if self.places:
            notes.append(f"checksums fail in {counted(self.places, 'place')}; the records there are left out")
        if self.cut:
            notes.append(f"the last record is cut: {counted(self.cut, 'byte')} dropped")
        return tuple(notes)


_BLOCK = 32_768
_HEADER = struct.Struct("<IHB")
_FULL = 1
_FIRST = 2
_MIDDLE = 3
_LAST = 4
WANDB = b":W&B"
"""How a file of W&B begins."""
FILE_HEADER = 7
"""Bytes before the first chunk: these, and its version."""


def leveldb_records(data: bytes, damage: Damage) -> Iterator[bytes]:
    """Whole records in file order; what is cut is left out, and the rest of a block after damage; both are counted."""
    at, end = FILE_HEADER, len(data)
    parts: list[bytes] = []
    begin = 0
    while at < end:
        room = _BLOCK - at % _BLOCK
        if room < _HEADER.size:
            at += room  # the rest of a block that is too short for a header is padding
            continue
        if end - at < _HEADER.size:
            break
        checksum, size, kind = _HEADER.unpack_from(data, at)
        body = at + _HEADER.size
        if not kind and not checksum and not size:  # set aside, not written yet
            damage.places += bool(data[at : at + room].strip(b"\x00"))
            at += room
            continue
        fits = size <= room - _HEADER.size and _FULL <= kind <= _LAST
        if fits and size > end - body:
            break
        piece = data[body : body + size]
        if not fits or zlib.crc32(piece, zlib.crc32(bytes([kind]))) != checksum:
            damage.places += 1
            at += room
            parts = []
            continue
        if kind in (_FULL, _FIRST):
            damage.places += bool(parts)
            parts, begin = [piece], at
        elif parts:
            parts.append(piece)
        at = body + size
        if kind in (_FULL, _LAST) and parts:
            yield b"".join(parts) if len(parts) > 1 else parts[0]
            parts = []
    if parts or at < end:
        damage.cut += end - (begin if parts else at)


_LENGTH = struct.Struct("<Q")
_BEFORE, _AFTER = 12, 4
_LARGEST = 1 << 16
"""Bytes of a record that is read: a longer one holds a picture, a sound or a histogram."""


def tfrecord_records(data: bytes, damage: Damage) -> Iterator[bytes]:
    """Whole records of at most `_LARGEST` bytes in file order, up to a damaged length; what is left out is counted."""
    at, end = 0, len(data)
    while end - at >= _BEFORE:
        if not starts_record(data, at):
            damage.places += 1
            return
        begin = at + _BEFORE
        behind = at + _BEFORE + _LENGTH.unpack_from(data, at)[0]
        if behind + _AFTER > end:
            break  # its length is true, so the bytes are still to come
        if behind - begin <= _LARGEST:
            record = data[begin:behind]
            if masked_crc32c(record) == int.from_bytes(data[behind : behind + _AFTER], "little"):
                yield record
            else:
                damage.places += 1
        at = behind + _AFTER
    damage.cut += end - at


def starts_record(data: bytes, at: int = 0) -> bool:
    """True where a length and its right checksum lie at a place."""
    head = data[at : at + _BEFORE]
    return len(head) == _BEFORE and masked_crc32c(head[:8]) == int.from_bytes(head[8:], "little")


def masked_crc32c(data: bytes) -> int:
    """The checksum of bytes that TensorFlow writes."""
    table, register = _table(), 0xFFFFFFFF
    for byte in data:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    register ^= 0xFFFFFFFF
    return ((register >> 15 | register << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """The register after each byte, by the polynomial of CRC-32C."""
    table = range(256)
    for _ in range(8):
        table = [x >> 1 ^ (0x82F63B78 if x & 1 else 0) for x in table]
    return tuple(table)


_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5
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
        if wire == _BYTES:
            yield key >> 3, content
        else:
            kind = _DOUBLE if wire == _FIXED64 else _FLOAT
            yield key >> 3, kind.unpack(content)[0]


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
