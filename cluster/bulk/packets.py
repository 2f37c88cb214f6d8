"""Packets of the multicast transport, and the header that every packet carries.

Paper: Freier and Marzullo, TR 90-1141, section 3.3. A sequence number is (number, packet): the number of the message,
and the position of the packet in it, from zero.
Departs: the status of a recent message comes with the id of its producer, so that a consumer that saw no packet of a
message knows whom to ask. Only control packets have these ids; data packets have the bare statuses (`ShortHeader`), and
a producer sends an empty packet before data when it has learned something new. Changes of the membership are messages
(section 5.3) without packets: their status says it all; a token therefore does not list the members. `Complete` and
`ProgressReport` are new: see `coordinator` and `consumer`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from cluster.names import ProcessId

WINDOW_ANY = 65_535  # in the parameters of a consumer: it can keep up with any window
NAK_RANGES_MAX = 96  # ranges of packets in a NAK, so that it fits into a datagram
T_MAX = 8  # messages whose status is in a header; the most tokens at a time (t_max of section 5.1)

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Place = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]  # of a packet in its message
Parameter = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Retention = Annotated[int, msgspec.Meta(ge=1, le=255)]
Ranges = tuple[tuple[Place, Place], ...]  # packets first .. end - 1 of a message, each


class Status(IntEnum):
    """The status of a message: final once it is not pending. The last three are changes of the membership."""

    PENDING = 0
    ACCEPTED = 1
    REJECTED = 2
    JOINED = 3
    LEFT = 4
    FOUNDED = 5  # joined when no member had the state: the web begins again with this process alone


class RecentMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A recent message: its status, and the holder of its token or the member that joined or left.

    `giver`: the member that gives the joining process the state before this message.
    """

    status: Status
    producer: ProcessId
    giver: ProcessId | None = None


class Parameters(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Flow control of the transport (section 3.3)."""

    heartbeat_ms: Parameter  # base unit of time
    window: Parameter  # data packets that a producer may send in one heartbeat
    retention: Retention  # heartbeats for which a producer must be able to send a packet again


class Header(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Part of every packet: what the sender knows of the master, and its flow control parameters.

    `recent` has the messages next - 1, next - 2, ... in this order, at most t_max of them.
    """

    session: int
    next: Count
    recent: tuple[RecentMessage, ...]
    parameters: Parameters

    def slots(self) -> list[tuple[int, RecentMessage]]:
        """The recent messages with their numbers."""
        return [(self.next - 1 - at, slot) for at, slot in enumerate(self.recent)]


class ShortHeader(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The header of a data packet: statuses without the ids of producers; None where the sender knows none."""

    session: int
    next: Count
    statuses: tuple[Status | None, ...]
    parameters: Parameters


class DataPacket(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One piece of a message, for all members. It has a layout of its own on the wire (`cluster.runtime.bulk`)."""

    header: ShortHeader
    number: Count
    packet: Place
    is_end: bool
    payload: bytes


class Packet(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the control packets. The tag names the type on the wire, so it never changes."""

    header: Header


class EmptyPacket(Packet, frozen=True, tag=2):
    """What the sender knows, without data. `packets`: those of the message that were sent so far (0: of no message)."""

    number: Count
    packets: Place
    is_end: bool


class Nak(Packet, frozen=True, tag=3):
    """Asks for packets of a message again. Its parameters are those that the consumer can keep up with."""

    number: Count
    ranges: Ranges


class NakDeny(Packet, frozen=True, tag=4):
    """The sender does not have packets of this message (any more)."""

    number: Count


class TokenRequest(Packet, frozen=True, tag=5):
    """A producer asks the master for the right to send one message. `request` counts the messages of the producer."""

    request: Count


class TokenGrant(Packet, frozen=True, tag=6):
    """The token: the message gets this number."""

    request: Count
    number: Count


class JoinRequest(Packet, frozen=True, tag=7):
    """A process asks the master to join the web, or to join again after it fell behind."""

    attempt: int
    with_state: bool


class JoinConfirm(Packet, frozen=True, tag=8):
    """The process is a member, and receives the messages from number `first` on, which says that it joined.

    `members`: those after message `first`. `giver`: the member that gives it the state before message `first`.
    """

    attempt: int
    first: Count
    members: tuple[ProcessId, ...]
    giver: ProcessId | None


class Complete(Packet, frozen=True, tag=9):
    """The sender has all packets of this message; if it joined by this message: it has the state before it.

    `view`: the number of the primary view in which it says so. A process that restarts comes back in another one.
    """

    number: Count
    view: Count


class ProgressReport(Packet, frozen=True, tag=10):
    """For the producer: the sender has this many packets of the message. Its parameters are like those of a NAK.

    `room`: how many packets the sender of this report has room for that it has not looked at yet. `is_delivered`: its
    application has the message; before, it may still miss the message, and join again behind it.
    """

    number: Count
    packets: Place
    is_complete: bool
    room: Place
    is_delivered: bool = False


ControlPacket = (
    EmptyPacket | Nak | NakDeny | TokenRequest | TokenGrant | JoinRequest | JoinConfirm | Complete | ProgressReport
)
AnyPacket = DataPacket | ControlPacket
