"""Packets of one message that have not arrived, as ranges. Pure."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.bulk.packets import Ranges


class Gaps:
    """Missing packets below `seen`, as sorted disjoint ranges. Memory follows the number of gaps, not of packets."""

    __slots__ = ("_ranges", "seen", "total")

    def __init__(self) -> None:
        self.seen = 0  # packets known to exist: 0 .. seen - 1
        self.total: int | None = None  # packets of the whole message, once its end is known
        self._ranges: list[tuple[int, int]] = []

    def exists(self, end: int, *, is_end: bool) -> None:
        """Packets 0 .. end - 1 exist; with `is_end` these are all."""
        if end > self.seen:
            self._ranges.append((self.seen, end))
            self.seen = end
        if is_end:
            self.total = end

    def arrived(self, packet: int, *, is_end: bool) -> bool:
        """Whether the packet is new."""
        if packet == self.seen:
            self.seen += 1
        else:
            self.exists(packet + 1, is_end=False)
            if not self._remove(packet):
                return False
        if is_end:
            self.total = packet + 1
        return True

    def _remove(self, packet: int) -> bool:
        at = bisect_right(self._ranges, packet, key=lambda part: part[0]) - 1
        if at < 0 or packet >= self._ranges[at][1]:
            return False
        first, end = self._ranges[at]
        self._ranges[at : at + 1] = [part for part in ((first, packet), (packet + 1, end)) if part[0] < part[1]]
        return True

    @property
    def is_complete(self) -> bool:
        return self.total is not None and self.seen >= self.total and not self._ranges

    def has_missing(self, start: int) -> bool:
        """Whether a packet from `start` on is missing."""
        return bool(self._ranges) and self._ranges[-1][1] > start

    def is_missing(self, packet: int) -> bool:
        at = bisect_right(self._ranges, packet, key=lambda part: part[0]) - 1
        return packet >= self.seen or (at >= 0 and packet < self._ranges[at][1])

    def first(self, count: int, start: int = 0, stop: int | None = None) -> Ranges:
        """The first `count` missing ranges, without packets below `start` or from `stop` on."""
        at = bisect_right(self._ranges, start, key=lambda part: part[1]) if start else 0
        found = self._ranges[at : at + count]
        if stop is None:
            return tuple((max(first, start), end) for first, end in found)
        return tuple((max(first, start), min(end, stop)) for first, end in found if first < stop)
