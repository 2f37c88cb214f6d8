"""Datagram format of the multicast transport: a fixed header, a keyed hash, and protection against replays.

    magic (4) | start (8) | sequence (8) | hash (16) | body

`start` is the time at which the sender started, in milliseconds, and `sequence` counts its datagrams. The hash is
BLAKE2b keyed with the cluster key, over everything else. So a datagram of a stranger costs one hash, and no memory.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from cluster.bulk.packets import AnyPacket
from cluster.names import ProcessId

MAGIC = b"qwb1"
HASH_LEN = 16
HEADER = struct.Struct(">4sQQ")
HEADER_LEN = HEADER.size + HASH_LEN
REPLAY_WINDOW = 4096  # datagrams of a sender that may overtake one another
SENDERS_MAX = 1024  # senders with the cluster key that are remembered


class Body(msgspec.Struct, frozen=True, array_like=True):
    sender: ProcessId
    packet: AnyPacket


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Body).decode


class ReplayWindow:
    """The datagrams of one sender that have arrived: a bit for each of the last REPLAY_WINDOW sequence numbers."""

    __slots__ = ("_bits", "_highest", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self._highest = -1
        self._bits = 0

    def is_new(self, sequence: int) -> bool:
        """Whether this datagram was not seen and is not too old. Remembers it."""
        if sequence > self._highest:
            shift = min(sequence - self._highest, REPLAY_WINDOW)
            self._bits = ((self._bits << shift) | 1) & ((1 << REPLAY_WINDOW) - 1)
            self._highest = sequence
            return True
        bit = 1 << (self._highest - sequence) if self._highest - sequence < REPLAY_WINDOW else 0
        if not bit or self._bits & bit:
            return False
        self._bits |= bit
        return True


class DatagramCodec:
    """Seals the datagrams of this process and opens those of others."""

    def __init__(self, key: bytes, cluster: str, me: ProcessId, start: int) -> None:
        self._key = blake2b(key, digest_size=32, key=blake2b(cluster.encode(), digest_size=32).digest()).digest()
        self._me = me
        self._start = start
        self._sequence = 0
        self._windows: dict[str, ReplayWindow] = {}
        self.refused = 0  # datagrams that were not authentic
        self.replayed = 0

    def seal(self, packet: AnyPacket) -> bytes:
        head = HEADER.pack(MAGIC, self._start, self._sequence)
        self._sequence += 1
        body = _encode(Body(self._me, packet))
        return head + self._hash(head, body) + body

    def open(self, datagram: bytes) -> Body | None:
        """The sender and the packet; None if the datagram is not authentic, malformed, or was seen before."""
        if len(datagram) <= HEADER_LEN or datagram[:4] != MAGIC:
            self.refused += 1
            return None
        head, body = datagram[: HEADER.size], datagram[HEADER_LEN:]
        if not compare_digest(self._hash(head, body), datagram[HEADER.size : HEADER_LEN]):
            self.refused += 1
            return None
        try:
            opened = _decode(body)
        except msgspec.DecodeError:
            self.refused += 1
            return None
        _, start, sequence = HEADER.unpack(head)
        if not self._is_new(opened.sender.name, start, sequence):
            self.replayed += 1
            return None
        return opened

    def _hash(self, head: bytes, body: bytes) -> bytes:
        keyed = blake2b(head, digest_size=HASH_LEN, key=self._key)
        keyed.update(body)
        return keyed.digest()

    def _is_new(self, name: str, start: int, sequence: int) -> bool:
        window = self._windows.pop(name, None)
        if window is None or start > window.start:
            window = ReplayWindow(start)
        self._windows[name] = window  # the most recent sender is last
        if len(self._windows) > SENDERS_MAX:
            del self._windows[next(iter(self._windows))]
        return start == window.start and window.is_new(sequence)
