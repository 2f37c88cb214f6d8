"""HDR histograms of durations: counts by value, with three significant digits over the whole range. Pure.

A value in microseconds belongs to the slot ``index_of(value)``. Up to 2047 every value has its own slot; above, slots
are as wide as possible without losing the third digit. This is the layout of Gil Tene's HdrHistogram (lowest value 1,
three digits), so its tools read the output of ``encode`` (version 2, compressed, base64). Only slots with values are
stored.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VALUE_MAX = 3_600_000_000  # an hour
DIGITS = 3

_COOKIE = 0x1C849313
_COOKIE_COMPRESSED = 0x1C849314
_HEADER = struct.Struct(">IIIIqqd")
_COMPRESSED_HEADER = struct.Struct(">II")
_ENCODED_MAX = 16 << 20


def index_of(value: int) -> int:
    """The slot of a value between 0 and ``VALUE_MAX``."""
    shift = (value | 2047).bit_length() - 11
    return (shift << 10) + (value >> shift)


def highest_of(index: int) -> int:
    """The largest value that shares the slot ``index``."""
    if index < 2048:
        return index
    shift = (index >> 10) - 1
    return ((((index & 1023) + 1024) + 1) << shift) - 1


def _middle_of(index: int) -> float:
    if index < 2048:
        return index
    return highest_of(index) - ((1 << ((index >> 10) - 1)) - 1) / 2


class Histogram:
    """Counts by slot. Fast code may fill ``counts`` directly: ``counts[index_of(v)] += 1``."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})

    def record(self, value: int, count: int = 1) -> None:
        index = index_of(min(max(value, 0), VALUE_MAX))
        self.counts[index] = self.counts.get(index, 0) + count

    def add(self, counts: Mapping[int, int]) -> None:
        mine = self.counts
        for index, count in counts.items():
            mine[index] = mine.get(index, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def max(self) -> int:
        return highest_of(max(self.counts)) if self.counts else 0

    @property
    def mean(self) -> float:
        total = self.total
        return sum(_middle_of(index) * count for index, count in self.counts.items()) / total if total else 0.0

    def percentile(self, percent: float) -> int:
        """The smallest recorded value that at least ``percent`` of all values do not exceed; 0 if there are none."""
        total = self.total
        wanted = max(1, math.ceil(total * percent / 100 - 1e-9))
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= wanted:
                return highest_of(index)
        return 0

    def encode(self) -> str:
        """HdrHistogram's own form: V2, compressed, base64."""
        payload = bytearray()
        at = 0
        for index in sorted(self.counts):
            if (gap := index - at) > 0:
                _append_zigzag(payload, -gap)
            _append_zigzag(payload, self.counts[index])
            at = index + 1
        whole = _HEADER.pack(_COOKIE, len(payload), 0, DIGITS, 1, VALUE_MAX, 1.0) + payload
        squeezed = zlib.compress(whole)
        return base64.b64encode(_COMPRESSED_HEADER.pack(_COOKIE_COMPRESSED, len(squeezed)) + squeezed).decode()

    @classmethod
    def decode(cls, text: str) -> Histogram:
        """The inverse of ``encode``. Raises ValueError for other input."""
        try:
            raw = base64.b64decode(text, validate=True)
            cookie, length = _COMPRESSED_HEADER.unpack_from(raw)
            inflater = zlib.decompressobj()
            whole = inflater.decompress(raw[_COMPRESSED_HEADER.size :][:length], _ENCODED_MAX)
            inner, size, offset, digits, lowest, _, _ = _HEADER.unpack_from(whole)
        except (ValueError, struct.error, zlib.error) as error:
            raise ValueError(f"not an encoded histogram: {error}") from None
        if (cookie, inner, offset, digits, lowest) != (_COOKIE_COMPRESSED, _COOKIE, 0, DIGITS, 1):
            raise ValueError("not an encoded histogram of version 2 with three digits")
        payload = whole[_HEADER.size :][:size]
        if not inflater.eof or len(payload) < size:
            raise ValueError("the encoded histogram is truncated")
        return cls(dict(_slots(payload)))


def _append_zigzag(to: bytearray, value: int) -> None:
    rest = (value << 1) ^ (value >> 63)
    rest &= (1 << 64) - 1
    for _ in range(8):
        if rest < 0x80:
            to.append(rest)
            return
        to.append(rest & 0x7F | 0x80)
        rest >>= 7
    to.append(rest)  # the ninth byte holds eight bits


def _slots(payload: bytes) -> Iterator[tuple[int, int]]:
    at, index = 0, 0
    while at < len(payload):
        value, shift = 0, 0
        while True:
            if at >= len(payload):
                raise ValueError("the encoded histogram is truncated")
            byte = payload[at]
            at += 1
            if shift == 56:
                value |= byte << 56
                break
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        count = (value >> 1) ^ -(value & 1)
        if count < 0:
            index -= count
        else:
            if count:
                yield index, count
            index += 1
