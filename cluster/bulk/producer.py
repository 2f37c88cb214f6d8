"""Producer: gets a token for a message, multicasts its packets, and sends lost packets again.

Paper: Freier and Marzullo, TR 90-1141, fig. 2 and section 3.3. At most `window` data packets per heartbeat; packets
that were asked for again come first.
Departs: empty packets are also sent between data, now and then and when the producer has learned something, because
data packets do not have the ids of producers. A packet is kept until its message is decided, and then for
`retention` heartbeats after the last NAK, but not longer than HELD_MAX times that. Within a heartbeat the packets are
spread over it, because a burst of a whole window overruns switches and socket buffers. A packet is sent again at most
once per heartbeat, however many consumers ask for it.
Nor does a producer send more than a consumer has room for, counted from its last report: otherwise a process that is
not scheduled for a while loses what it has no socket buffer for.
The sender of a message chooses what a slow consumer does. With `rate_min` 0 it slows all: the producer asks for no
other token until all members have the message. Otherwise it slows the producer down to `rate_min` packets per second,
and falls behind if that is too fast.
"""

from __future__ import annotations

from collections import deque
from math import ceil, inf
from typing import TYPE_CHECKING

from cluster.bulk.effects import MessageResolved, Multicast, Outcome, ReceivedByAll
from cluster.bulk.packets import (
    NAK_RANGES_MAX,
    DataPacket,
    EmptyPacket,
    Nak,
    NakDeny,
    ProgressReport,
    Status,
    TokenGrant,
    TokenRequest,
)

if TYPE_CHECKING:
    from cluster.bulk.effects import BulkContext, MessageSource
    from cluster.bulk.packets import Header
    from cluster.names import ProcessId

SLICES = 8  # the window of a heartbeat leaves in this many bursts
HELD_MAX = 16  # retentions for which a decided message is kept, however often it is asked for
TELL_BEATS = 8  # heartbeats with data between two empty packets
ROOM_MIN = 32  # packets that a consumer has room for if it has not told otherwise
ASK_BEATS = 4  # heartbeats after which a token is requested again


class Outgoing:
    """A message of this producer."""

    __slots__ = ("asked_beat", "complete", "decided_beat", "delivered", "number", "outcome", "progress", "rate_max",
                 "rate_min", "request", "rooms", "sent", "source")  # fmt: skip

    def __init__(self, request: int, source: MessageSource, rate_min: float, rate_max: float) -> None:
        self.request = request
        self.source = source
        self.rate_min = rate_min  # packets per second; 0: wait for all consumers
        self.rate_max = rate_max  # packets per second
        self.number = 0  # 0: no token yet
        self.sent = 0  # packets 0 .. sent - 1 have been sent
        self.outcome: Outcome | None = None
        self.decided_beat = 0
        self.asked_beat = 0  # the last heartbeat with a NAK
        self.progress: dict[ProcessId, int] = {}  # packets that consumers have, as far as they told
        self.rooms: dict[ProcessId, int] = {}  # packets that they have room for
        self.complete: set[ProcessId] = set()  # consumers that have all
        self.delivered: set[ProcessId] = set()  # consumers whose applications have the message

    @property
    def is_sent(self) -> bool:
        return self.source.is_ended and self.sent == self.source.available


class Producer:
    """Sends the messages of one process, one after the other."""

    __slots__ = ("_again", "_asked_beat", "_awaited", "_beat", "_beat_at", "_context", "_limit", "_requests", "_resent",
                 "_told", "current", "naks", "repeated", "retained", "waiting")  # fmt: skip

    def __init__(self, context: BulkContext, requests: int) -> None:
        self._context = context
        self._requests = requests
        self._beat = 0  # heartbeats so far
        self._beat_at = -inf  # start of the current heartbeat
        self._limit = 0  # packets of the current message that all consumers have room for
        self._told = -1  # the version of the statuses that an empty packet told last
        self._asked_beat = -ASK_BEATS
        self._again: dict[tuple[int, int], None] = {}  # packets to send again, in the order of the NAKs
        self._resent: dict[tuple[int, int], int] = {}  # packets sent again, and in which heartbeat
        self.naks = 0  # NAKs received
        self.repeated = 0  # packets sent again
        self.waiting: deque[Outgoing] = deque()
        self.current: Outgoing | None = None  # has asked for a token, or has one
        self._awaited: Outgoing | None = None  # was accepted, and the sender waits for all consumers
        self.retained: dict[int, Outgoing] = {}  # messages whose packets are still available, by number

    # ---- inputs

    def send(self, source: MessageSource, rate_min: float, rate_max: float) -> int:
        """Queues a message. Returns the number of its request."""
        self._requests += 1
        self.waiting.append(Outgoing(self._requests, source, rate_min, rate_max))
        return self._requests

    def find(self, request: int) -> Outgoing | None:
        """The message of a request, while its packets are available."""
        current = (self.current,) if self.current is not None else ()
        messages = (*self.waiting, *current, *self.retained.values())
        return next((message for message in messages if message.request == request), None)

    def received(self, message: Outgoing) -> dict[str, int | None]:
        """How many packets each receiver has, by name; None: it has the message.

        If the sender waits for all, the message has to be delivered. One that has joined again since has dropped it.
        """
        first = {member.name: joined.first for member, joined in self._context.master.joined.items()}
        found: dict[str, int | None] = {member.name: 0 for member in self._receivers(message)}
        for member, packets in message.progress.items():
            if member in message.delivered:
                found[member.name] = None
            elif first.get(member.name, 0) > message.number:
                found[member.name] = 0
            elif member in message.complete:
                found[member.name] = None if message.rate_min else packets - 1
            else:
                found[member.name] = packets
        return found

    def abandon(self, request: int) -> None:
        """Gives up a message that has no outcome, and its token: the coordinator rejects the message."""
        message = self.find(request)
        if message is self._awaited:
            self._awaited = None
        if message is not None and message.outcome is None:
            self.waiting = deque(one for one in self.waiting if one is not message)
            self.retained.pop(message.number, None)
            if message is self.current:
                self.current = None
            if message.number and self._context.coordinator is not None:
                self._context.send(self._context.coordinator, NakDeny(self._header(), message.number))

    def on_grant(self, grant: TokenGrant) -> None:
        message = self.current
        if message is not None and message.request == grant.request and not message.number:
            message.number = grant.number
            flow = self._context.flow
            flow.window_min = max(1, ceil(message.rate_min * flow.heartbeat_s))
            self.retained[grant.number] = message
            self.on_status()

    def on_nak(self, sender: ProcessId, nak: Nak) -> bool:
        """Whether the packets will be sent again."""
        message = self.retained.get(nak.number)
        if message is None:
            return False
        self.naks += 1
        self._context.flow.ask(nak.header.parameters)
        message.asked_beat = self._beat
        room = self._context.flow.window_max
        for first, end in nak.ranges[:NAK_RANGES_MAX]:
            for packet in range(first, min(end, message.sent, first + room)):
                key = (nak.number, packet)
                if len(self._again) < room and self._resent.get(key, -2) < self._beat - 1:
                    self._again[key] = None
        if any(end > message.sent for _, end in nak.ranges):
            self._context.send(sender, self._empty(message))
        return True

    def on_progress(self, sender: ProcessId, progress: ProgressReport) -> None:
        message = self.retained.get(progress.number)
        if message is not None:
            message.progress[sender] = max(progress.packets, message.progress.get(sender, 0))
            message.rooms[sender] = progress.room
            if progress.is_complete:
                message.complete.add(sender)
                if progress.is_delivered:
                    message.delivered.add(sender)
                self._await_all()
            else:
                self._context.flow.ask(progress.header.parameters)
            if message is self.current:
                self._send_allowed()

    def on_status(self) -> None:
        """Statuses of messages have become known."""
        context = self._context
        for number, message in self.retained.items():
            if message.outcome is None:
                status = context.statuses.status(number)
                if status in (Status.ACCEPTED, Status.REJECTED):
                    self._resolve(message, Outcome.ACCEPTED if status is Status.ACCEPTED else Outcome.REJECTED)
                elif context.statuses.is_lost(number):
                    self._resolve(message, Outcome.UNKNOWN)

    def tick(self, *, is_member: bool) -> None:
        context = self._context
        if context.now >= self._beat_at + context.flow.heartbeat_s:
            self._send_allowed()  # what is left of its window: the timer may be late
            self._end_heartbeat()
        if is_member:
            self._ask()
        self._send_allowed()

    def next_deadline(self) -> float:
        """The time of the next burst or heartbeat; infinity if this producer has nothing to do."""
        if self.current is None and not self.waiting and not self.retained:
            return inf
        slices = SLICES if self._again or self._has_data() else 1
        return self._last_slice() + self._context.flow.heartbeat_s / slices

    # ---- local actions

    def _last_slice(self) -> float:
        """The start of the present slice of the heartbeat."""
        context = self._context
        length = context.flow.heartbeat_s / SLICES
        if self._again or self._has_data():
            return self._beat_at + length * int((context.now - self._beat_at) / length)
        return self._beat_at

    def _has_data(self) -> bool:
        message = self.current
        if message is None or not message.number:
            return False
        return message.sent < min(message.source.available, self._limit)

    def _end_heartbeat(self) -> None:
        context = self._context
        self._await_all()
        is_quiet = not context.flow.used or self._beat % TELL_BEATS == 0
        for message in self.retained.values():
            is_asked = message is self._awaited and self._beat % ASK_BEATS == 0
            if (message.outcome is None and is_quiet) or is_asked:
                self._tell(message)
        beat = context.flow.heartbeat_s
        self._beat_at = self._beat_at + beat if context.now < self._beat_at + 2 * beat else context.now
        context.flow.on_heartbeat()
        self._beat += 1
        self._resent = {key: sent_in for key, sent_in in self._resent.items() if sent_in >= self._beat - 1}
        retention = context.flow.retention
        for number, message in list(self.retained.items()):
            decided, asked = message.decided_beat, message.asked_beat
            is_over = self._beat - max(decided, asked) > retention or self._beat - decided > HELD_MAX * retention
            if message.outcome is not None and message is not self._awaited and is_over:
                del self.retained[number]

    def _ask(self) -> None:
        context = self._context
        if self.current is None and self._awaited is None and self.waiting:
            self.current = self.waiting.popleft()
            self._asked_beat = -ASK_BEATS
        message = self.current
        if message is None or message.number or self._beat - self._asked_beat < ASK_BEATS:
            return
        if context.coordinator is not None:
            self._asked_beat = self._beat
            context.send(context.coordinator, TokenRequest(self._header(), message.request))

    def _send_allowed(self) -> None:
        """Sends what the window allows at this point of the heartbeat: packets to send again first."""
        context = self._context
        flow = context.flow
        if flow.is_blocked:
            return
        done = min(SLICES, int(min(1.0, (context.now - self._beat_at) / flow.heartbeat_s) * SLICES) + 1)
        window = flow.window
        if self.current is not None and self.current.rate_max < inf:
            window = min(window, ceil(self.current.rate_max * flow.heartbeat_s))
        allowed = ceil(window * done / SLICES) - flow.used
        self._set_limit()
        if allowed > 0 and self._told != context.statuses.version and self.current is not None and self._has_data():
            self._tell(self.current)
        while allowed > 0 and (packet := self._next_packet()) is not None:
            context.outbox.append(Multicast(packet))
            flow.used += 1
            allowed -= 1

    def _set_limit(self) -> None:
        """New packets go out only if all consumers have room for them, but at the lowest rate that the sender chose."""
        message, context = self.current, self._context
        if message is None:
            return
        rooms = (
            message.progress.get(member, 0) + message.rooms.get(member, ROOM_MIN)
            for member in self._receivers(message)
            if member not in message.complete and member in context.master.primary
        )
        self._limit = min(rooms, default=message.source.available)
        if message.rate_min:
            self._limit = max(self._limit, message.sent + context.flow.window_min - context.flow.used)

    def _next_packet(self) -> DataPacket | None:
        while self._again:
            number, packet = key = next(iter(self._again))
            del self._again[key]
            message = self.retained.get(number)
            if message is not None:
                self._resent[key] = self._beat
                self.repeated += 1
                return self._data(message, packet)
        message = self.current
        if message is not None and self._has_data():
            message.sent += 1
            return self._data(message, message.sent - 1)
        return None

    def _data(self, message: Outgoing, packet: int) -> DataPacket:
        is_end = message.source.is_ended and packet == message.source.available - 1
        header = self._context.statuses.short_header(self._context.flow.parameters)
        return DataPacket(header, message.number, packet, is_end, message.source.read(packet))

    def _tell(self, message: Outgoing) -> None:
        """Tells all members which statuses this producer knows, and how many packets it has sent."""
        self._context.outbox.append(Multicast(self._empty(message)))
        self._told = self._context.statuses.version

    def _await_all(self) -> None:
        message = self._awaited
        if message is not None and not self._is_behind(message):
            self._awaited = None
            self._context.outbox.append(ReceivedByAll(message.request))

    def _is_behind(self, message: Outgoing) -> bool:
        """Whether a member that receives this message does not have all of it yet."""
        is_behind = any(member not in message.delivered for member in self._receivers(message))
        return is_behind or not self._context.in_primary

    def _receivers(self, message: Outgoing) -> list[ProcessId]:
        """The other members that receive this message."""
        joined, me = self._context.master.joined.items(), self._context.me
        return [member for member, one in joined if one.is_ready and one.first < message.number and member != me]

    def _empty(self, message: Outgoing) -> EmptyPacket:
        return EmptyPacket(self._header(), message.number, message.sent, message.is_sent)

    def _header(self) -> Header:
        return self._context.statuses.header(self._context.flow.parameters)

    def _resolve(self, message: Outgoing, outcome: Outcome) -> None:
        message.outcome = outcome
        message.decided_beat = self._beat
        self._context.outbox.append(MessageResolved(message.request, message.number, outcome))
        if message is self.current:
            self.current = None
            if outcome is Outcome.ACCEPTED and not message.rate_min:
                self._awaited = message
                self._await_all()
