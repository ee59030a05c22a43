"""Records in TensorFlow's record format, which TensorBoard's event files have.

Layout: length (eight bytes), its checksum, the bytes, their checksum; checksums are masked CRC-32C
(https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from bayes_grpo.stores import crc32c
from bayes_grpo.stores.damage import Damage

_LENGTH = struct.Struct("<Q")
_BEFORE, _AFTER = 12, 4
_BATCH = 4096
_SEARCH = 1 << 17
_LARGEST = 1 << 16
"""Bytes of a record that is read: a longer one holds a picture, a sound or a histogram."""


def starts(data: bytes) -> bool:
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
        holds = crc32c.masked(data, first, length) == stored
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
    return crc32c.masked(data, place, np.full(len(place), _LENGTH.size)) == _words(data, place + _LENGTH.size)


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
