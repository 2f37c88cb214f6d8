"""Outputs of the multicast transport's state machines to their runtime, and the context that they share."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.bulk.master import Entry
from cluster.bulk.packets import AnyPacket
from cluster.names import ProcessId

if TYPE_CHECKING:
    from cluster.bulk.flow_control import FlowControl
    from cluster.bulk.master import Master
    from cluster.bulk.message_statuses import MessageStatuses
    from cluster.layer import RandomSource


ROOM_MAX = 6144


class Outcome(Enum):
    """The outcome of a message that this process sent."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"  # this process was cut off while the message was decided


class SendTo(msgspec.Struct, frozen=True):
    """Sends the packet to one process, perhaps itself."""

    to: ProcessId
    packet: AnyPacket


class Multicast(msgspec.Struct, frozen=True):
    """Sends the packet to all members of the web, itself included."""

    packet: AnyPacket


class Propose(msgspec.Struct, frozen=True):
    """Submits the entry to the total order. It may be lost if the primary view changes."""

    entry: Entry


class DeliverMessage(msgspec.Struct, frozen=True):
    """For the application: message `number` was accepted and is complete in the spool."""

    number: int
    producer: ProcessId


class Discard(msgspec.Struct, frozen=True):
    """The spool may drop the packets of this message."""

    number: int


class MessageResolved(msgspec.Struct, frozen=True):
    """For the application: the outcome of its message `request`, which got this number."""

    request: int
    number: int
    outcome: Outcome


class ReceivedByAll(msgspec.Struct, frozen=True):
    """For the application: all members delivered its message `request`, whose sender waits for slow consumers."""

    request: int


class Joined(msgspec.Struct, frozen=True):
    """For the application: this process is a member and delivers messages from `first` on.

    `has_state`: it was given the state before that message. Otherwise it begins without one.
    """

    first: int
    has_state: bool


class MembersChanged(msgspec.Struct, frozen=True):
    """For the application: from message `number` on these are the members, the same at every member."""

    number: int
    members: tuple[ProcessId, ...]


class MissedMessages(msgspec.Struct, frozen=True):
    """For the application: this process has missed something for good. It joins again."""

    reason: str


class SendState(msgspec.Struct, frozen=True):
    """For the application: give the present state, that before message `first`, to a process that joins."""

    to: ProcessId
    first: int


Effect = (
    SendTo
    | Multicast
    | Propose
    | DeliverMessage
    | Discard
    | MessageResolved
    | ReceivedByAll
    | Joined
    | MembersChanged
    | MissedMessages
    | SendState
)


class Spool(Protocol):
    """Storage of the packets of messages until they are delivered, and a little longer to repair others."""

    def write(self, number: int, packet: int, payload: bytes) -> None: ...
    def read(self, number: int, packet: int) -> bytes: ...


class MessageSource(Protocol):
    """The content of a message to send, in packets. Packets below `available` can be read again at any time."""

    @property
    def available(self) -> int: ...
    @property
    def is_ended(self) -> bool: ...
    def read(self, packet: int) -> bytes: ...


class BulkContext:
    """State shared by the automata of a process."""

    __slots__ = ("chance", "flow", "in_primary", "master", "me", "now", "outbox", "room", "spool", "statuses")

    def __init__(
        self,
        me: ProcessId,
        chance: RandomSource,
        master: Master,
        statuses: MessageStatuses,
        flow: FlowControl,
        spool: Spool,
    ) -> None:
        self.me = me
        self.chance = chance
        self.master = master  # this process's replica
        self.statuses = statuses
        self.flow = flow
        self.spool = spool
        self.room = ROOM_MAX  # packets that the network keeps for this process until it looks at them
        self.in_primary = False  # whether the replica of the master is current
        self.now = 0.0
        self.outbox: list[Effect] = []

    @property
    def coordinator(self) -> ProcessId | None:
        """The coordinator; None if this process is not in the primary view and so cannot know it."""
        return self.master.coordinator if self.in_primary else None

    def send(self, to: ProcessId, packet: AnyPacket) -> None:
        self.outbox.append(SendTo(to, packet))
