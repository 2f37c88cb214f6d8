"""Consumer: reassembles messages, asks for lost packets, and delivers accepted messages in the order of their numbers.

Paper: Freier and Marzullo, TR 90-1141, fig. 3 and section 3.3. `next_out` is nextOut; nextIn is `Knowledge.next`.
Departs: a process that misses packets of an accepted message asks the producer, then the other members in turn, and
joins again only if none of them has the packets. A member therefore keeps its last KEPT messages to repair others. A
member that has all packets of a message tells the coordinator (`Complete`). A message that changes the membership
has no packets and is complete at once. Before a NAK a consumer waits for half a
heartbeat, in which reordered packets arrive, plus up to `dally` heartbeats (section 4).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from cluster.bulk.effects import DeliverMessage, Discard, Joined, MembersChanged, MissedMessages, SendState
from cluster.bulk.gaps import Gaps
from cluster.bulk.packets import (
    T_MAX,
    Complete,
    DataPacket,
    EmptyPacket,
    JoinConfirm,
    JoinRequest,
    Nak,
    NakDeny,
    Status,
)

if TYPE_CHECKING:
    from cluster.bulk.effects import BulkContext
    from cluster.bulk.packets import Header, RecentMessage
    from cluster.names import ProcessId

KEPT = T_MAX  # delivered messages that are kept to repair others
BEHIND_MAX = 4 * T_MAX  # messages between the next to deliver and the newest, before this process gives up
STATE_BEATS = 250  # heartbeats for which a joining process waits for the state
JOIN_BEATS = 8  # heartbeats after which a request to join is repeated
NAK_BEATS = 3  # heartbeats after which a NAK is repeated
COMPLETE_BEATS = 4  # heartbeats after which Complete is repeated
NAK_RANGES_MAX = 64
OPEN_END = 256  # packets beyond the known ones that are asked for when the end of a message is not known


class Incoming:
    """A message that is being received."""

    __slots__ = ("asked", "denied", "gaps", "nak_at", "producer", "told_at")

    def __init__(self, producer: ProcessId) -> None:
        self.producer = producer
        self.gaps = Gaps()
        self.nak_at = inf  # when to ask for missing packets
        self.asked = 0  # NAKs sent
        self.denied: set[ProcessId] = set()  # members that do not have the packets
        self.told_at = inf  # when to tell the coordinator (again) that the message is complete


class Consumer:
    """Receives the messages of all producers."""

    __slots__ = ("_confirm", "_context", "_first", "_state_first", "attempt", "incoming", "is_member", "join_at",
                 "kept", "naks", "next_out", "ready_at", "with_state")  # fmt: skip

    def __init__(self, context: BulkContext, attempt: int, *, with_state: bool) -> None:
        self._context = context
        self.with_state = with_state
        self.is_member = False
        self.attempt = attempt  # counts the attempts to join
        self.join_at = 0.0
        self._confirm: JoinConfirm | None = None  # waits for the state before its first message
        self._state_first = 0  # the first message after the state that this process was given
        self._first = 0  # the message by which this process joined
        self.ready_at = inf  # when to tell the coordinator (again) that this process has the state
        self.next_out = 0  # the next message to deliver
        self.incoming: dict[int, Incoming] = {}
        self.kept: dict[int, int] = {}  # delivered messages that are still in the spool: number of packets
        self.naks = 0  # NAKs sent

    # ---- inputs

    def on_confirm(self, confirm: JoinConfirm) -> None:
        if self.is_member or confirm.attempt != self.attempt:
            return
        if confirm.giver is not None and self._state_first != confirm.first:
            if self._confirm is None:
                self._confirm = confirm
                self.join_at = self._context.now + STATE_BEATS * self._context.flow.heartbeat_s
            return
        context = self._context
        self.is_member = True
        self._confirm = None
        self.next_out = confirm.first + 1
        self._first = confirm.first
        self.ready_at = context.now if confirm.giver is not None else inf
        context.knowledge.members = confirm.members
        context.knowledge.forget_below(self.next_out)
        context.outbox.append(Joined(confirm.first, confirm.giver is not None))
        context.outbox.append(MembersChanged(confirm.first, confirm.members))
        self.on_status()

    def on_state(self, first: int) -> None:
        """The application has the state before message `first`."""
        if not self.is_member:
            self._state_first = first
            if self._confirm is not None:
                self.on_confirm(self._confirm)

    def on_data(self, sender: ProcessId, data: DataPacket) -> None:
        message = self._message(data.number, sender)
        if message is not None and not message.gaps.is_complete:
            self._context.spool.write(data.number, data.packet, data.payload)  # before it counts: a disk may be full
            if message.gaps.arrived(data.packet, is_end=data.is_end):
                self._check(data.number, message)

    def on_empty(self, sender: ProcessId, empty: EmptyPacket) -> None:
        message = self._message(empty.number, sender)
        if message is not None:
            message.gaps.exists(empty.packets, is_end=empty.is_end)
            self._check(empty.number, message)

    def on_deny(self, sender: ProcessId, deny: NakDeny) -> None:
        message = self.incoming.get(deny.number)
        if message is not None and not message.gaps.is_complete:
            message.denied.add(sender)
            message.nak_at = min(message.nak_at, self._context.now)

    def on_nak(self, sender: ProcessId, nak: Nak) -> bool:
        """Repairs a message that this process has complete. Returns whether it has."""
        packets = self._complete_packets(nak.number)
        if packets is None:
            return False
        context = self._context
        header = self._header()
        room = context.flow.window
        for first, end in nak.ranges[:NAK_RANGES_MAX]:
            for packet in range(first, min(end, packets, first + room)):
                payload = context.spool.read(nak.number, packet)
                context.send(sender, DataPacket(header, nak.number, packet, packet == packets - 1, payload))
                room -= 1
        context.send(sender, EmptyPacket(header, nak.number, packets, True))
        return True

    def on_status(self) -> None:
        """Statuses of messages have become known: delivers and skips what is decided."""
        if self.is_member:
            self._advance()
        if self.is_member:
            self._expect_accepted()

    def tick(self) -> None:
        if not self.is_member:
            self._ask_to_join()
            return
        now = self._context.now
        if now >= self.ready_at:
            self._tell_ready()
        for number, message in list(self.incoming.items()):
            if now >= message.told_at:
                self._tell_complete(number, message)
            if now >= message.nak_at and not self._nak(number, message):
                return

    def next_deadline(self) -> float:
        if not self.is_member:
            return self.join_at if self._context.coordinator is not None else inf
        first = min((min(message.nak_at, message.told_at) for message in self.incoming.values()), default=inf)
        return min(first, self.ready_at)

    def join_again(self, reason: str) -> None:
        """This process has missed something for good. It keeps complete messages, since it may have told so."""
        self._context.outbox.append(MissedMessages(reason))
        for number, message in self.incoming.items():
            if message.gaps.is_complete:
                self.kept[number] = message.gaps.seen
            else:
                self._context.outbox.append(Discard(number))
        self.incoming.clear()
        self.is_member = False
        self.attempt += 1
        self._confirm = None
        self.join_at = self._context.now

    # ---- local actions

    def _message(self, number: int, producer: ProcessId) -> Incoming | None:
        """The message of a packet; None if the packet is of no use."""
        knowledge = self._context.knowledge
        if not self.is_member or not self.next_out <= number < knowledge.next:
            return None
        if knowledge.status(number) not in (None, Status.PENDING, Status.ACCEPTED):
            return None
        message = self.incoming.get(number)
        if message is None:
            slot = knowledge.slots.get(number)
            message = self.incoming[number] = Incoming(slot.producer if slot is not None else producer)
        return message

    def _check(self, number: int, message: Incoming) -> None:
        """After a change of a message: is it complete, or is something missing?"""
        if message.gaps.is_complete:
            message.nak_at = inf
            if message.told_at == inf and self._context.knowledge.status(number) is not Status.ACCEPTED:
                self._tell_complete(number, message)
            self._advance()
        elif message.gaps.first(1) and message.nak_at == inf:
            message.nak_at = self._context.now + self._patience()

    def _patience(self) -> float:
        flow = self._context.flow
        return flow.heartbeat_s * (0.5 + self._context.chance.random() * flow.dally)

    def _tell_complete(self, number: int, message: Incoming) -> None:
        context = self._context
        if context.knowledge.status(number) in (Status.ACCEPTED, Status.REJECTED):
            message.told_at = inf
            return
        message.told_at = context.now + COMPLETE_BEATS * context.flow.heartbeat_s
        if context.coordinator is not None:
            context.send(context.coordinator, Complete(self._header(), number))

    def _tell_ready(self) -> None:
        context = self._context
        joined = context.master.joined.get(context.me)
        if joined is not None and joined.first == self._first and joined.is_ready:
            self.ready_at = inf
            return
        self.ready_at = context.now + COMPLETE_BEATS * context.flow.heartbeat_s
        if context.coordinator is not None:
            context.send(context.coordinator, Complete(self._header(), self._first))

    def _advance(self) -> None:
        knowledge = self._context.knowledge
        while self.next_out < knowledge.next:
            number = self.next_out
            status = knowledge.status(number)
            message = self.incoming.get(number)
            if status is Status.REJECTED:
                self._drop(number)
            elif status is Status.ACCEPTED and message is not None and message.gaps.is_complete:
                self._deliver(number, message)
            elif status in (Status.JOINED, Status.LEFT, Status.FOUNDED):
                if not self._change_members(number, knowledge.slots[number]):
                    return
            elif knowledge.is_lost(number):
                self.join_again(f"the status of message {number} was missed")
                return
            elif knowledge.next - number > BEHIND_MAX:
                self.join_again(f"message {number} is incomplete, and {knowledge.next - 1} has begun")
                return
            else:
                return
            self.next_out += 1
            knowledge.forget_below(self.next_out - T_MAX)

    def _deliver(self, number: int, message: Incoming) -> None:
        context = self._context
        context.outbox.append(DeliverMessage(number, message.producer))
        del self.incoming[number]
        self.kept[number] = message.gaps.seen
        for old in [old for old in self.kept if old <= number - KEPT]:
            del self.kept[old]
            context.outbox.append(Discard(old))

    def _change_members(self, number: int, slot: RecentMessage) -> bool:
        """Delivers a change of the membership. Returns whether this process is still a member."""
        context = self._context
        kept = () if slot.status is Status.FOUNDED else context.knowledge.members
        members = tuple(member for member in kept if member.name != slot.producer.name)
        if slot.status is not Status.LEFT:
            members = (*members, slot.producer)
        if context.me not in members:
            self.join_again(f"this process was removed by message {number}")
            return False
        if slot.giver == context.me:
            context.outbox.append(SendState(slot.producer, number))
        context.knowledge.members = members
        context.outbox.append(MembersChanged(number, members))
        return True

    def _drop(self, number: int) -> None:
        if self.incoming.pop(number, None) is not None:
            self._context.outbox.append(Discard(number))

    def _expect_accepted(self) -> None:
        """Accepted messages of which packets are missing are asked for, also if no packet was seen at all."""
        knowledge = self._context.knowledge
        for number in range(self.next_out, knowledge.next):
            slot = knowledge.slots.get(number)
            if slot is not None and slot.status is Status.ACCEPTED:
                message = self._message(number, slot.producer)
                if message is not None and not message.gaps.is_complete and message.nak_at == inf:
                    message.nak_at = self._context.now + self._patience()
            elif slot is not None and slot.status is Status.REJECTED:
                self._drop(number)

    def _nak(self, number: int, message: Incoming) -> bool:
        """Asks for the missing packets of a message. False: nobody has them, and this process joins again."""
        context = self._context
        ranges = message.gaps.first(NAK_RANGES_MAX)
        if message.gaps.total is None and context.knowledge.status(number) is Status.ACCEPTED:
            ranges = (*ranges, (message.gaps.seen, message.gaps.seen + OPEN_END))
        if not ranges:
            message.nak_at = inf
            return True
        target = self._whom_to_ask(number, message)
        if target is None:
            self.join_again(f"packets of message {number} are no longer available")
            return False
        message.asked += 1
        self.naks += 1
        message.nak_at = context.now + NAK_BEATS * context.flow.heartbeat_s + self._patience()
        context.send(target, Nak(self._header(), number, ranges))
        return True

    def _whom_to_ask(self, number: int, message: Incoming) -> ProcessId | None:
        """The producer, and after some NAKs the other members in turn. None: nobody has the packets."""
        context = self._context
        patience = context.flow.retention
        others = [m for m in context.knowledge.members if m not in (context.me, message.producer)]
        if context.knowledge.status(number) is not Status.ACCEPTED:
            return message.producer  # undecided: only the producer has to have it
        is_there = message.producer in context.knowledge.members and message.producer not in message.denied
        if message.asked < patience and is_there:
            return message.producer
        able = [member for member in others if member not in message.denied]
        if not able or message.asked > patience + 4 * len(others):
            return None
        return able[message.asked % len(able)]

    def _complete_packets(self, number: int) -> int | None:
        message = self.incoming.get(number)
        if message is not None and message.gaps.is_complete:
            return message.gaps.seen
        return self.kept.get(number)

    def _ask_to_join(self) -> None:
        context = self._context
        if context.now >= self.join_at and context.coordinator is not None:
            if self._confirm is not None:  # the state did not come: begin again
                self._confirm = None
                self.attempt += 1
            self.join_at = context.now + JOIN_BEATS * context.flow.heartbeat_s
            context.send(context.coordinator, JoinRequest(self._header(), self.attempt, self.with_state))

    def _header(self) -> Header:
        return self._context.knowledge.header(self._context.flow.parameters)
