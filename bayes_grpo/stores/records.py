"""Records in the files of stores: LevelDB's log format, TensorFlow's record format, their checksums, what is damaged.

Layouts: https://github.com/google/leveldb/blob/main/doc/log_format.md, of which W&B and SwanLab put seven bytes before
the first chunk, count them as part of its block, and take the plain CRC-32 of type and bytes;
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details with masked CRC-32C.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import counted

_MAX_PLACES = 1_000


@dataclass
class Damage:
    """Counts what a reader leaves out.

    Attributes:
        cut: Bytes of a last record that is not there in full: normal while a run goes on.
        places: Damaged places in the middle of the file.
    """

    cut: int = 0
    places: int = 0

    def at(self, more: int) -> None:
        """Counts damaged places.

        Raises:
            LogReadError: There are very many.
        """
        self.places += more
        if self.places > _MAX_PLACES:
            raise LogReadError(
                f"expected a file as its store wrote it, found checksums that fail in more than {_MAX_PLACES} places; "
                f"copy the file again"
            )

    def nothing(self, what: str) -> LogReadError:
        """The error of a file without a row.

        Args:
            what: What the file is, in words.
        """
        lost = "".join(f" ({note})" for note in self.notes())
        return LogReadError(f"expected rows of metrics in {what}, found none{lost}; wait for the first logged row")

    def notes(self) -> tuple[str, ...]:
        """The counts in words."""
        said = []
        if self.places:
            said.append(f"checksums fail in {counted(self.places, 'place')}; the records there are left out")
        if self.cut:
            said.append(f"the last record is cut: {counted(self.cut, 'byte')} dropped")
        return tuple(said)


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


_FEW = 32
"""Fewer strings than that are cheaper one by one."""
_CELLS = 1 << 24


def masked_crc32c(data: bytes | np.ndarray, start: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Masked checksums of parts of a buffer.

    Args:
        data: The buffer.
        start: First byte of each part, shape (n,).
        size: Length of each part, shape (n,).

    Returns:
        Checksums, shape (n,), uint32.
    """
    buffer = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
    result = np.zeros(len(start), dtype=np.uint32)
    widths = np.maximum(4, 1 << np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64))
    for width in np.unique(widths):
        chosen = np.flatnonzero((widths == width) & (size >= 4))
        batch = max(_CELLS // int(width), 1)
        for first in range(0, len(chosen), batch):
            part = chosen[first : first + batch]
            if len(part) < _FEW:
                result[part] = [_one(buffer[start[i] : start[i] + size[i]].tobytes()) for i in part]
            else:
                result[part] = _many(buffer, start[part], size[part], int(width))
    short = np.flatnonzero(size < 4)
    result[short] = [_one(buffer[start[i] : start[i] + size[i]].tobytes()) for i in short]
    return (((result >> np.uint32(15)) | (result << np.uint32(17))) + np.uint32(0xA282EAD8)).astype(np.uint32)


def _many(buffer: np.ndarray, start: np.ndarray, size: np.ndarray, width: int) -> np.ndarray:
    """Plain checksums of parts of at least four bytes.

    Zeros put in front change nothing if the register begins at 0, and a register that begins at all ones is the same
    as the first four bytes turned round.
    """
    place = (start + size)[:, None] - width + np.arange(width)
    inside = place >= start[:, None]
    cells = np.where(inside, buffer[np.where(inside, place, 0)], 0).astype(np.uint8)
    first = width - size
    for k in range(4):
        cells[np.arange(len(start)), first + k] ^= 0xFF
    table = _table()
    register = np.zeros(len(start), dtype=np.uint32)
    for column in np.ascontiguousarray(cells.T):
        register = table[(register ^ column) & 0xFF] ^ (register >> np.uint32(8))
    return register ^ np.uint32(0xFFFFFFFF)


def _one(data: bytes) -> int:
    table = _list()
    register = 0xFFFFFFFF
    for byte in data:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF


@cache
def _table() -> np.ndarray:
    register = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        register = np.where(register & 1, (register >> np.uint32(1)) ^ np.uint32(0x82F63B78), register >> np.uint32(1))
    return register.astype(np.uint32)


@cache
def _list() -> tuple[int, ...]:
    return tuple(int(x) for x in _table())


_LENGTH = struct.Struct("<Q")
_BEFORE, _AFTER = 12, 4
_BATCH = 4096
_SEARCH = 1 << 17
_LARGEST = 1 << 16
"""Bytes of a record that is read: a longer one holds a picture, a sound or a histogram."""


def starts_record(data: bytes) -> bool:
    """Whether the bytes begin with a length and its right checksum."""
    return len(data) >= _BEFORE and bool(_headers_hold(data, np.array([0]))[0])


def tfrecord_records(data: bytes, damage: Damage) -> Iterator[bytes]:
    """Whole records of at most `_LARGEST` bytes in file order; what is cut or damaged is left out and counted.

    Args:
        data: The file.
        damage: Counts what is left out.

    Raises:
        LogReadError: The file is damaged in very many places.
    """
    at, end = 0, len(data)
    while at < end:
        place, size, behind = _walk(data, at)
        good = _headers_hold(data, place)
        true = len(place) if good.all() else int(np.argmin(good))
        place, size = place[:true], size[:true]
        read = size <= _LARGEST
        first, length = place[read] + _BEFORE, size[read]
        stored = _words(data, first + length)
        holds = masked_crc32c(data, first, length) == stored
        damage.at(int(np.sum(~holds)))
        for begin, n in zip(first[holds].tolist(), length[holds].tolist(), strict=True):
            yield data[begin : begin + n]
        if true == len(good) and behind > at:
            at = behind
            continue
        broken = int(place[-1] + size[-1]) + _BEFORE + _AFTER if true else at
        if end - broken < _BEFORE or _headers_hold(data, np.array([broken]))[0]:
            damage.cut += end - broken  # its length is true, so the bytes are still to come
            return
        damage.at(1)
        at = _next_header(data, broken + 1)


def _walk(data: bytes, at: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Places and lengths of records that lie whole in the file, as their lengths say, and the place behind them."""
    place, size = [], []
    end = len(data)
    while end - at >= _BEFORE + _AFTER and len(place) < _BATCH:
        (length,) = _LENGTH.unpack_from(data, at)
        if length > end - at - _BEFORE - _AFTER:
            break
        place.append(at)
        size.append(length)
        at += length + _BEFORE + _AFTER
    return np.array(place, dtype=np.int64), np.array(size, dtype=np.int64), at


def _headers_hold(data: bytes, place: np.ndarray) -> np.ndarray:
    if not len(place):
        return np.zeros(0, dtype=bool)
    return masked_crc32c(data, place, np.full(len(place), _LENGTH.size)) == _words(data, place + _LENGTH.size)


def _words(data: bytes, place: np.ndarray) -> np.ndarray:
    """Numbers of four bytes at some places, shape (n,)."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    return buffer[place[:, None] + np.arange(4)].copy().view("<u4")[:, 0] if len(place) else np.zeros(0, np.uint32)


def _next_header(data: bytes, at: int) -> int:
    """The next place where a length and its right checksum lie, the end of the file where there is none."""
    last = len(data) - _BEFORE
    for begin in range(at, last + 1, _SEARCH):
        place = np.arange(begin, min(begin + _SEARCH, last + 1))
        found = np.flatnonzero(_headers_hold(data, place))
        if len(found):
            return int(place[found[0]])
    return len(data)
