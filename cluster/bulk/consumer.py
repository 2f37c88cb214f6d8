"""Consumer: reassembles messages, asks for lost packets, and delivers accepted messages in the order of their numbers.

Paper: Freier and Marzullo, TR 90-1141, fig. 3 and section 3.3. `next_out` is nextOut; nextIn is `MessageStatuses.next`.
Departs: a process that misses packets of an accepted message asks the producer, then all members in turn, and joins
again only if none of them has the packets. A member therefore keeps its last KEPT messages (`repairs`). A
member that has all packets of a message tells the coordinator (`Complete`), and tells the producer now and then how
many it has (`ProgressReport`). A message that changes the membership has no packets and is complete at once. Before
a NAK a consumer waits for half a heartbeat, in which reordered packets arrive, plus up to `dally` heartbeats (section
4); it asks for the same packets again after NAK_BEATS, or twice the time that repairs took lately,
and after ever longer times while nothing arrives.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from cluster.bulk.effects import DeliverMessage, Discard, Joined, MembersChanged, MissedMessages, SendState
from cluster.bulk.flow_control import NAK_BEATS, ReceptionMeter
from cluster.bulk.gaps import Gaps
from cluster.bulk.nak_rounds import NakRounds
from cluster.bulk.packets import (
    NAK_RANGES_MAX,
    T_MAX,
    Complete,
    DataPacket,
    EmptyPacket,
    JoinConfirm,
    JoinRequest,
    Nak,
    NakDeny,
    Parameters,
    ProgressReport,
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
COMPLETE_BEATS = 4  # heartbeats after which Complete is repeated
PROGRESS_BEATS = 10  # heartbeats between two reports of progress, at most
REPORT_PACKETS = 512  # packets between two reports, at most
FIRST_PACKETS = 4  # packets before the first report, which tells the producer how much room there is
SAME_NAKS = 4  # NAKs without an answer after which others are asked too
UNANSWERED_MAX = 16  # unanswered NAKs after which the packets count as lost everywhere; four more for each member
OPEN_END = 256  # packets beyond the known ones that are asked for when the end of a message is not known


class Incoming:
    """A message that is being received."""

    __slots__ = ("arrived", "denied", "gaps", "heard_at", "meter", "nak_at", "parameters",
                 "producer", "report_at", "reported", "rounds", "sender", "tell_at", "unanswered")  # fmt: skip

    def __init__(self, producer: ProcessId, parameters: Parameters, now: float) -> None:
        self.producer = producer
        self.parameters = parameters  # of the present sender: the producer, or a member that repairs
        self.meter = ReceptionMeter(now)
        self.gaps = Gaps()
        self.heard_at = -inf  # when a packet of it arrived
        self.sender = producer  # of that packet: the producer, or a member that repairs
        self.arrived = 0  # packets
        self.reported = 0  # of these, the producer was told
        self.rounds = NakRounds()
        self.nak_at = inf  # when to ask for packets that were not asked for yet
        self.unanswered = 0  # NAKs sent since the last new packet arrived
        self.denied: set[ProcessId] = set()  # members that do not have the packets
        self.tell_at = inf  # when to tell the coordinator (again) that the message is complete
        self.report_at = now + PROGRESS_BEATS * self.heartbeat_s  # when to report progress to the producer

    @property
    def heartbeat_s(self) -> float:
        return self.parameters.heartbeat_ms / 1e3


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
        context.statuses.members = confirm.members
        context.statuses.forget_below(self.next_out)
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
        message = self._message(data.number, sender, data.header.parameters)
        if message is not None and not message.gaps.is_complete:
            message.heard_at = self._context.now
            gaps = message.gaps
            self._context.spool.write(data.number, data.packet, data.payload)  # before it counts: a disk may be full
            seen = gaps.seen
            is_gap = data.packet > seen
            if gaps.arrived(data.packet, is_end=data.is_end):
                message.arrived += 1
                message.unanswered = 0
                message.sender = sender
                message.meter.on_packet(self._context.now, data.packet)
                if is_gap:
                    message.meter.on_lost(data.packet - seen)
                elif message.rounds.asked_to <= data.packet < seen:  # it was only late
                    message.meter.on_lost(-1)
                every = min(REPORT_PACKETS, self._context.room // 4 + 1) if message.reported else FIRST_PACKETS
                if message.arrived - message.reported >= every:
                    self._report(data.number, message)
                if is_gap or gaps.total is not None:
                    self._check(data.number, message)

    def on_empty(self, sender: ProcessId, empty: EmptyPacket) -> None:
        message = self._message(empty.number, sender, empty.header.parameters)
        if message is not None:
            message.meter.on_lost(max(0, empty.packets - message.gaps.seen))
            message.gaps.exists(empty.packets, is_end=empty.is_end)
            self._check(empty.number, message)
        elif self.is_member and self._first < empty.number < self.next_out:  # the producer asks who has it
            self._tell_delivered(sender, empty.number, empty.packets)

    def on_deny(self, sender: ProcessId, deny: NakDeny) -> None:
        message = self.incoming.get(deny.number)
        if message is not None and not message.gaps.is_complete:
            message.denied.add(sender)
            if self._context.statuses.status(deny.number) is Status.ACCEPTED:  # another member may have it
                message.nak_at = self._context.now
                message.rounds.expire(message.nak_at)

    def on_status(self) -> None:
        """Statuses of messages have become known: delivers accepted messages and skips rejected ones."""
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
            if now >= message.tell_at:
                self._tell_complete(number, message)
            if now >= message.report_at:
                self._report(number, message)
            if now >= min(message.nak_at, message.rounds.due_at) and not self._nak(number, message):
                return

    def next_deadline(self) -> float:
        if not self.is_member:
            return self.join_at if self._context.coordinator is not None else inf
        incoming = self.incoming.values()
        first = min((min(one.nak_at, one.rounds.due_at, one.tell_at, one.report_at) for one in incoming), default=inf)
        return min(first, self.ready_at)

    def complete_packets(self, number: int) -> int | None:
        """The number of packets of a message if this process has all of them, else None."""
        message = self.incoming.get(number)
        if message is not None and message.gaps.is_complete:
            return message.gaps.seen
        return self.kept.get(number)

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

    def _message(self, number: int, sender: ProcessId, parameters: Parameters) -> Incoming | None:
        """The message of a packet; None if the packet is of no use."""
        statuses = self._context.statuses
        if not self.is_member or not self.next_out <= number < statuses.next:
            return None
        slot = statuses.slots.get(number)
        if slot is not None and slot.status not in (Status.PENDING, Status.ACCEPTED):
            return None
        message = self.incoming.get(number)
        if message is None:
            producer = slot.producer if slot is not None else sender
            message = self.incoming[number] = Incoming(producer, parameters, self._context.now)
        else:
            message.parameters = parameters
        return message

    def _check(self, number: int, message: Incoming) -> None:
        """After a change of a message: is it complete, or is something missing?"""
        if message.gaps.is_complete:
            message.nak_at = message.report_at = inf
            if message.tell_at == inf:
                self._report(number, message)
                if self._context.statuses.status(number) is not Status.ACCEPTED:
                    self._tell_complete(number, message)
            self._advance()
        elif message.nak_at == inf and message.gaps.has_missing(message.rounds.asked_to):
            message.nak_at = self._context.now + self._patience(message)

    def _patience(self, message: Incoming) -> float:
        return message.heartbeat_s * (0.5 + self._context.chance.random() * self._context.flow.dally)

    def _report(self, number: int, message: Incoming) -> None:
        """Tells the producer how many packets of its message are here."""
        is_complete = message.gaps.is_complete
        message.report_at = inf if is_complete else self._context.now + PROGRESS_BEATS * message.heartbeat_s
        message.reported = message.arrived
        report = ProgressReport(self._wish(message), number, message.arrived, is_complete, self._context.room)
        self._context.send(message.producer, report)

    def _tell_complete(self, number: int, message: Incoming) -> None:
        context = self._context
        if context.statuses.status(number) in (Status.ACCEPTED, Status.REJECTED):
            message.tell_at = inf
            return
        message.tell_at = context.now + COMPLETE_BEATS * context.flow.heartbeat_s
        if context.coordinator is not None:
            context.send(context.coordinator, Complete(self._header(), number, context.master.views))

    def _tell_ready(self) -> None:
        context = self._context
        joined = context.master.joined.get(context.me)
        if joined is not None and joined.first == self._first and joined.is_ready:
            self.ready_at = inf
            return
        self.ready_at = context.now + COMPLETE_BEATS * context.flow.heartbeat_s
        if context.coordinator is not None:
            context.send(context.coordinator, Complete(self._header(), self._first, context.master.views))

    def _advance(self) -> None:
        statuses = self._context.statuses
        while self.next_out < statuses.next:
            number = self.next_out
            status = statuses.status(number)
            message = self.incoming.get(number)
            if status is Status.REJECTED:
                self._drop(number)
            elif status is Status.ACCEPTED and message is not None and message.gaps.is_complete:
                self._deliver(number, message)
            elif status in (Status.JOINED, Status.LEFT, Status.FOUNDED):
                if not self._change_members(number, statuses.slots[number]):
                    return
            elif statuses.is_lost(number):
                self.join_again(f"the status of message {number} was missed")
                return
            elif statuses.next - number > BEHIND_MAX:
                self.join_again(f"message {number} is incomplete, and {statuses.next - 1} has begun")
                return
            else:
                return
            self.next_out += 1
            statuses.forget_below(self.next_out - T_MAX)

    def _deliver(self, number: int, message: Incoming) -> None:
        context = self._context
        context.outbox.append(DeliverMessage(number, message.producer))
        self._tell_delivered(message.producer, number, message.gaps.seen)
        del self.incoming[number]
        self.kept[number] = message.gaps.seen
        for old in [old for old in self.kept if old <= number - KEPT]:
            del self.kept[old]
            context.outbox.append(Discard(old))

    def _tell_delivered(self, producer: ProcessId, number: int, packets: int) -> None:
        context = self._context
        context.send(producer, ProgressReport(self._header(), number, packets, True, context.room, is_delivered=True))

    def _change_members(self, number: int, slot: RecentMessage) -> bool:
        """Delivers a change of the membership. Returns whether this process is still a member."""
        context = self._context
        kept = () if slot.status is Status.FOUNDED else context.statuses.members
        members = tuple(member for member in kept if member.name != slot.producer.name)
        if slot.status is not Status.LEFT:
            members = (*members, slot.producer)
        if context.me not in members:
            self.join_again(f"this process was removed by message {number}")
            return False
        if slot.giver == context.me:
            context.outbox.append(SendState(slot.producer, number))
        context.statuses.members = members
        context.outbox.append(MembersChanged(number, members))
        return True

    def _drop(self, number: int) -> None:
        if self.incoming.pop(number, None) is not None:
            self._context.outbox.append(Discard(number))

    def _expect_accepted(self) -> None:
        """Accepted messages of which packets are missing are asked for, also if no packet was seen at all."""
        statuses = self._context.statuses
        for number in range(self.next_out, statuses.next):
            slot = statuses.slots.get(number)
            if slot is not None and slot.status is Status.ACCEPTED:
                message = self._message(number, slot.producer, self._context.flow.parameters)
                if message is not None and not message.gaps.is_complete and message.nak_at == inf:
                    message.nak_at = self._context.now + self._patience(message)
            elif slot is not None and slot.status is Status.REJECTED:
                self._drop(number)

    def _nak(self, number: int, message: Incoming) -> bool:
        """Asks for missing packets of a message. False: no member has them, and this process joins again."""
        context = self._context
        again_s = message.meter.wait_s(message.heartbeat_s, message.unanswered) + self._patience(message)
        asked_to = message.rounds.asked_to
        ranges = message.rounds.take(message.gaps, context.now, context.now + again_s, NAK_RANGES_MAX)
        is_accepted = context.statuses.status(number) is Status.ACCEPTED
        is_silent = context.now >= message.heard_at + NAK_BEATS * message.heartbeat_s
        is_open = is_accepted and message.gaps.total is None  # there may be packets of which nothing was heard
        if is_open and is_silent and len(ranges) < NAK_RANGES_MAX:
            ranges = (*ranges, (message.gaps.seen, message.gaps.seen + OPEN_END))
        has_more = message.gaps.has_missing(message.rounds.asked_to)
        message.nak_at = context.now + (message.heartbeat_s if has_more else again_s if is_open else inf)
        if not ranges:
            return True
        target = self._peer_to_ask(number, message)
        if target is None:
            self.join_again(f"packets of message {number} are no longer available")
            return False
        if message.rounds.asked_to > asked_to:
            first = next(max(first, asked_to) for first, end in ranges if end > asked_to)
            message.meter.on_nak(context.now, first, context.now + again_s)
        elif message.unanswered:
            message.meter.on_silence(context.now, context.now + again_s)
        self.naks += 1
        message.unanswered += 1
        context.send(target, Nak(self._wish(message), number, ranges))
        return True

    def _peer_to_ask(self, number: int, message: Incoming) -> ProcessId | None:
        """The member that answered last; after some unanswered NAKs all members in turn. None: no member has them."""
        context = self._context
        if context.statuses.status(number) is not Status.ACCEPTED:
            return message.producer  # undecided: only the producer has to have it
        members = context.statuses.members
        able = [member for member in members if member not in message.denied and member != context.me]
        if message.unanswered < SAME_NAKS and message.sender in able:
            return message.sender
        if not able or message.unanswered > UNANSWERED_MAX + 4 * len(members):
            return None
        return able[message.unanswered % len(able)]

    def _ask_to_join(self) -> None:
        context = self._context
        if context.now >= self.join_at and context.coordinator is not None:
            if self._confirm is not None:  # the state did not come: begin again
                self._confirm = None
                self.attempt += 1
            self.join_at = context.now + JOIN_BEATS * context.flow.heartbeat_s
            context.send(context.coordinator, JoinRequest(self._header(), self.attempt, self.with_state))

    def _header(self) -> Header:
        return self._context.statuses.header(self._context.flow.parameters)

    def _wish(self, message: Incoming) -> Header:
        """A header with the parameters that this consumer can keep up with (section 4)."""
        return self._context.statuses.header(message.meter.wish(self._context.now, message.parameters))
