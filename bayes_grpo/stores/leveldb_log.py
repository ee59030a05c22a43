"""Records in LevelDB's log format, which Weights & Biases and SwanLab write.

Layout: https://github.com/google/leveldb/blob/main/doc/log_format.md. Blocks of 32 KiB hold chunks: a checksum, a
length, a type and the bytes; a record is one chunk, or a first, middle ones and a last. Both stores put seven bytes
before the first chunk, count them as part of its block, and take the plain CRC-32 of type and bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from bayes_grpo.stores.damage import Damage

_BLOCK = 32_768
_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MAX_RECORD = 1 << 26
_MAX_PARTS = 2 * _MAX_RECORD // _BLOCK
"""Pieces of a record: a writer leaves a block only when it is full."""
FILE_HEADER = 7
"""Bytes before the first chunk: four that name the store, the rest its version."""


def leveldb_records(data: bytes, damage: Damage) -> Iterator[bytes]:
    """Whole records in file order; what is cut or damaged is left out and counted.

    Args:
        data: The file.
        damage: Counts what is left out.

    Raises:
        LogReadError: The file is damaged in very many places.
    """
    at, end = FILE_HEADER, len(data)
    parts: list[bytes] = []
    held = begin = 0
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
            if data[at : at + room].strip(b"\x00"):
                damage.at(1)
            at += room
            continue
        if size <= room - _HEADER.size and size > end - body and _FULL <= kind <= _LAST:
            break
        if not _whole(data, at, room):
            # Of a damaged chunk the length may still be true: then a whole chunk follows it.
            following = body + size
            left = room - _HEADER.size - size
            follows = left >= _HEADER.size and _whole(data, following, left)
            at = following if follows else at + room
            damage.at(1)
            parts = []
            continue
        piece = data[body : body + size]
        if kind in (_FULL, _FIRST):
            if parts:
                damage.at(1)
            parts, held, begin = [piece], size, at
        elif parts:
            parts.append(piece)
            held += size
            if held > _MAX_RECORD or len(parts) > _MAX_PARTS:
                damage.at(1)
                parts = []
        at = body + size
        if kind in (_FULL, _LAST) and parts:
            yield b"".join(parts) if len(parts) > 1 else parts[0]
            parts = []
    if parts or at < end:
        damage.cut += end - (begin if parts else at)


def _whole(data: bytes, at: int, room: int) -> bool:
    """Whether a chunk with the right checksum begins at a place."""
    if at + _HEADER.size > len(data):
        return False
    checksum, size, kind = _HEADER.unpack_from(data, at)
    body = at + _HEADER.size
    if not _FULL <= kind <= _LAST or size > room - _HEADER.size or body + size > len(data):
        return False
    return zlib.crc32(data[body : body + size], zlib.crc32(bytes([kind]))) == checksum
