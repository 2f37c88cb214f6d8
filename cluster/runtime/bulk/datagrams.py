"""Datagram format of the multicast transport: a small fixed header, a keyed hash, and protection against replays.

    magic (3) | kind (1) | origin (4) | sequence (8) | hash (16) | body

`origin` is a short id of the sending process, `sequence` counts its datagrams. The hash is BLAKE2b keyed with the
cluster key, over everything else. So a datagram of a stranger costs one hash, and no memory.

The body of a control datagram names the sender, the time at which it started, and has the packet (MessagePack). It
makes the origin known; data of an origin that is not known is dropped. The body of a data datagram is

    next (8) | statuses (4) | heartbeat (2) | window (2) | retention (1) | flags (1) | back (2) | packet (4) | payload

with four bits for each status, the newest message first, and the number of the message as `next` - 1 - `back`.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from cluster.bulk.packets import T_MAX, AnyPacket, ControlPacket, DataPacket, Parameters, ShortHeader, Status
from cluster.names import ProcessId

MAGIC = b"qwb"
CONTROL, DATA = 1, 2
HASH_LEN = 16
HEADER = struct.Struct(">3sBIQ")
HEADER_LEN = HEADER.size + HASH_LEN
DATA_HEADER = struct.Struct(">QIHHBBHI")
DATA_OVERHEAD = HEADER_LEN + DATA_HEADER.size
IS_END = 1  # flag
NO_STATUS = 15
STATUSES = {int(status): status for status in Status}
REPLAY_WINDOW = 4096  # datagrams of a sender that may overtake one another
SENDERS_MAX = 1024  # senders with the cluster key that are remembered
_KNOWN_LEN = 18  # bytes of a data header, `next` to `flags`, that seldom change


class ControlBody(msgspec.Struct, frozen=True, array_like=True):
    """The body of a control datagram."""

    sender: ProcessId
    start: int  # milliseconds
    packet: ControlPacket


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ControlBody).decode


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
            self._bits = ((self._bits << shift) | 1) & _REPLAY_MASK
            self._highest = sequence
            return True
        bit = 1 << (self._highest - sequence) if self._highest - sequence < REPLAY_WINDOW else 0
        if not bit or self._bits & bit:
            return False
        self._bits |= bit
        return True


_REPLAY_MASK = (1 << REPLAY_WINDOW) - 1


class KnownSender:
    """A process whose control datagrams have arrived, and the header of its last data packet, decoded."""

    __slots__ = ("header", "header_bytes", "origin", "sender", "window")

    def __init__(self, sender: ProcessId, origin: int, start: int) -> None:
        self.sender = sender
        self.origin = origin
        self.window = ReplayWindow(start)
        self.header_bytes = b""
        self.header: ShortHeader | None = None


class DatagramCodec:
    """Seals the datagrams of this process and opens those of others."""

    def __init__(self, key: bytes, cluster: str, session: int, me: ProcessId, start: int) -> None:
        secret = blake2b(key, digest_size=32, key=blake2b(cluster.encode(), digest_size=32).digest()).digest()
        self._keyed = blake2b(digest_size=HASH_LEN, key=secret)
        self._session = session
        self._me = me
        self._start = start
        self._origin = _origin_of(me, start)
        self._sequence = 0
        self._by_name: dict[str, KnownSender] = {}  # the most recent sender is last
        self._by_origin: dict[int, KnownSender] = {}
        self._header: ShortHeader | None = None  # of the data packet that was sealed last
        self._header_fields: tuple[int, ...] = ()
        self.refused = 0  # datagrams that were not authentic
        self.replayed = 0

    # ---- seal

    def seal(self, packet: AnyPacket) -> bytes:
        if isinstance(packet, DataPacket):
            return self._join(DATA, self._data_header(packet), packet.payload)
        return self._join(CONTROL, _encode(ControlBody(self._me, self._start, packet)), b"")

    def _join(self, kind: int, head: bytes, rest: bytes) -> bytes:
        fixed = HEADER.pack(MAGIC, kind, self._origin, self._sequence)
        self._sequence += 1
        return b"".join((fixed, self._hash(fixed, head, rest), head, rest))

    def _data_header(self, packet: DataPacket) -> bytes:
        header = packet.header
        if header is not self._header:
            statuses = 0
            for at in range(T_MAX):
                status = header.statuses[at] if at < len(header.statuses) else None
                statuses |= (NO_STATUS if status is None else int(status)) << 4 * at
            parameters = header.parameters
            self._header = header
            self._header_fields = (
                header.next, statuses, parameters.heartbeat_ms, parameters.window, parameters.retention
            )  # fmt: skip
        back = header.next - 1 - packet.number
        return DATA_HEADER.pack(*self._header_fields, packet.is_end, back, packet.packet)

    # ---- open

    def open(self, datagram: bytes) -> tuple[ProcessId, AnyPacket] | None:
        """The sender and the packet; None if the datagram is not authentic, malformed, or was seen before."""
        if len(datagram) <= HEADER_LEN or datagram[:3] != MAGIC:
            self.refused += 1
            return None
        _, kind, origin, sequence = HEADER.unpack_from(datagram)
        if origin == self._origin:  # a multicast of this process came back
            return None
        fixed = datagram[: HEADER.size]
        body = memoryview(datagram)[HEADER_LEN:]
        if not compare_digest(self._hash(fixed, body, b""), datagram[HEADER.size : HEADER_LEN]):
            self.refused += 1
            return None
        if kind == DATA:
            return self._open_data(origin, sequence, datagram)
        return self._open_control(origin, sequence, body) if kind == CONTROL else None

    def _open_control(self, origin: int, sequence: int, body: memoryview) -> tuple[ProcessId, AnyPacket] | None:
        try:
            opened = _decode(body)
        except msgspec.DecodeError:
            self.refused += 1
            return None
        known = self._know(opened.sender, origin, opened.start)
        if known is None or not known.window.is_new(sequence):
            self.replayed += 1
            return None
        return known.sender, opened.packet

    def _open_data(self, origin: int, sequence: int, datagram: bytes) -> tuple[ProcessId, AnyPacket] | None:
        known = self._by_origin.get(origin)
        if known is None or len(datagram) < DATA_OVERHEAD:
            self.refused += known is not None
            return None
        if not known.window.is_new(sequence):
            self.replayed += 1
            return None
        fields = DATA_HEADER.unpack_from(datagram, HEADER_LEN)
        repeated = datagram[HEADER_LEN : HEADER_LEN + _KNOWN_LEN]
        header = known.header
        if header is None or repeated != known.header_bytes:
            header = known.header = self._short_header(fields)
            known.header_bytes = repeated
        number = fields[0] - 1 - fields[6]
        if number < 0 or not header.parameters.heartbeat_ms:
            self.refused += 1
            return None
        is_end = bool(fields[5] & IS_END)
        return known.sender, DataPacket(header, number, fields[7], is_end, datagram[DATA_OVERHEAD:])

    def _short_header(self, fields: tuple[int, ...]) -> ShortHeader:
        statuses = tuple(STATUSES.get(fields[1] >> 4 * at & 15) for at in range(T_MAX))
        return ShortHeader(self._session, fields[0], statuses, Parameters(fields[2], fields[3], fields[4]))

    def _know(self, sender: ProcessId, origin: int, start: int) -> KnownSender | None:
        """The record of this process; None if a later process of its name is known, or its origin is not its own."""
        known = self._by_name.pop(sender.name, None)
        is_new = known is None or start > known.window.start
        if is_new and origin == _origin_of(sender, start):
            if known is not None:
                self._by_origin.pop(known.origin, None)
            known = KnownSender(sender, origin, start)
            self._by_origin[origin] = known
        if known is not None:
            self._by_name[sender.name] = known
        if len(self._by_name) > SENDERS_MAX:
            oldest = self._by_name.pop(next(iter(self._by_name)))
            self._by_origin.pop(oldest.origin, None)
        return known if known is not None and known.origin == origin and known.sender == sender else None

    def _hash(self, fixed: bytes, head: bytes | memoryview, rest: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(fixed)
        keyed.update(head)
        keyed.update(rest)
        return keyed.digest()


def _origin_of(sender: ProcessId, start: int) -> int:
    """The short id of a process. Two processes with the same one do not receive each other's data (1 in 2**32)."""
    text = f"{start} {sender.incarnation} {sender.name}".encode()
    return int.from_bytes(blake2b(text, digest_size=4).digest())
