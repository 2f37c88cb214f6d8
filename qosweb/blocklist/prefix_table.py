"""Longest-prefix lookup of client addresses in a table of networks.

One dictionary for each address family and prefix length, by the bits of the prefix. To look up an address, the lengths
that occur are tried, longest first. Few of them can match: the first 16 bits of an IPv4 address (32 of IPv6) select the
longer lengths that occur under them.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.blocklist.operations import Prefix

Value = TypeVar("Value")

MAPPED = "::ffff:"  # the beginning of an IPv4 address in IPv6 form


def _changes(counts: dict[int, int], length: int, by: int) -> bool:
    """Add to the count of a length. Returns whether the lengths that occur have changed."""
    before = counts.get(length, 0)
    if before + by:
        counts[length] = before + by
        return not before
    del counts[length]
    return True


class _Family(Generic[Value]):
    """The table of one address family."""

    __slots__ = ("_buckets", "_counts", "_short", "_short_counts", "bits", "by_length", "top")

    def __init__(self, bits: int, top: int) -> None:
        self.bits = bits
        self.top = top  # prefixes of at least this length are found through the bucket of their first bits
        self.by_length: dict[int, dict[int, Value]] = {}
        self._counts: dict[int, dict[int, int]] = {}  # by bucket: how many prefixes of each length
        self._buckets: dict[int, tuple[tuple[int, dict[int, Value]], ...]] = {}  # shift and dictionary, longest first
        self._short_counts: dict[int, int] = {}
        self._short: tuple[tuple[int, dict[int, Value]], ...] = ()

    def put(self, prefix: int, length: int, value: Value) -> None:
        """`prefix`: the first `length` bits of the network."""
        table = self.by_length.setdefault(length, {})
        if prefix not in table:
            self._count(prefix, length, 1)
        table[prefix] = value

    def remove(self, prefix: int, length: int) -> None:
        if self.by_length.get(length, {}).pop(prefix, None) is not None:
            self._count(prefix, length, -1)

    def _count(self, prefix: int, length: int, by: int) -> None:
        if length < self.top:
            if _changes(self._short_counts, length, by):
                self._short = self._order(self._short_counts)
            return
        bucket = prefix >> (length - self.top)
        counts = self._counts.setdefault(bucket, {})
        if not _changes(counts, length, by):
            return
        if counts:
            self._buckets[bucket] = self._order(counts)
        else:
            del self._counts[bucket], self._buckets[bucket]

    def _order(self, counts: dict[int, int]) -> tuple[tuple[int, dict[int, Value]], ...]:
        return tuple([(self.bits - length, self.by_length[length]) for length in sorted(counts, reverse=True)])

    def matches(self, address: int) -> Iterator[Value]:
        """The values of all networks that contain the address, longest prefix first."""
        for order in (self._buckets.get(address >> (self.bits - self.top), ()), self._short):
            for shift, table in order:
                found = table.get(address >> shift)
                if found is not None:
                    yield found

    def longest(self, address: int) -> Value | None:
        """The value of the longest prefix that contains the address."""
        bucket = self._buckets.get(address >> (self.bits - self.top))
        if bucket is not None:
            for shift, table in bucket:
                found = table.get(address >> shift)
                if found is not None:
                    return found
        for shift, table in self._short:
            found = table.get(address >> shift)
            if found is not None:
                return found
        return None


class PrefixTable(Generic[Value]):
    """Maps the prefixes of networks to values. Values must not be None."""

    __slots__ = ("_four", "_six", "size")

    def __init__(self) -> None:
        self._four: _Family[Value] = _Family(32, 16)
        self._six: _Family[Value] = _Family(128, 32)
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def put(self, prefix: Prefix, value: Value) -> None:
        family = self._family(prefix)
        self.size += prefix.bits not in family.by_length.get(prefix.length, {})
        family.put(prefix.bits, prefix.length, value)

    def remove(self, prefix: Prefix) -> None:
        family = self._family(prefix)
        self.size -= prefix.bits in family.by_length.get(prefix.length, {})
        family.remove(prefix.bits, prefix.length)

    def get(self, prefix: Prefix) -> Value | None:
        """The value of exactly this network."""
        return self._family(prefix).by_length.get(prefix.length, {}).get(prefix.bits)

    def _family(self, prefix: Prefix) -> _Family[Value]:
        return self._four if prefix.version == 4 else self._six

    def longest(self, client: str) -> Value | None:
        """The value of the longest prefix that contains this address; None if there is none."""
        family, address = self._address(client)
        return None if family is None else family.longest(address)

    def matches(self, client: str) -> Iterator[Value]:
        """The values of all networks that contain this address, longest prefix first."""
        family, address = self._address(client)
        return iter(()) if family is None else family.matches(address)

    def _address(self, client: str) -> tuple[_Family[Value] | None, int]:
        try:
            if ":" not in client:
                return self._four, int.from_bytes(socket.inet_aton(client))
            if client.startswith(MAPPED) and "." in client:
                return self._four, int.from_bytes(socket.inet_aton(client[len(MAPPED) :]))
            return self._six, int.from_bytes(socket.inet_pton(socket.AF_INET6, client.partition("%")[0]))
        except OSError:
            return None, 0  # not an address: a client on a Unix socket
