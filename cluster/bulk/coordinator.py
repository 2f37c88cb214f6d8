"""Coordinator: the member that acts as the master towards producers and consumers.

Paper: Freier and Marzullo, TR 90-1141, fig. 1, sections 3.4 and 5.2. Every process has this automaton; it acts only at
the lowest-ranked member of the primary view. It announces nothing that is not in its replica of the master, which
changes by ordered entries alone.
Departs: fig. 1 accepts a message when the master has its last packet. Here a message is accepted when a majority of the
members in the primary view that receive it has all of its packets (`Complete`), so that an accepted message survives the crash of its producer and of
the coordinator. A producer has failed if nothing was heard of it for SILENCE_BEATS heartbeats.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from cluster.bulk.effects import Multicast, Propose, SendState
from cluster.bulk.master import T_MAX, Accept, Grant, Join, Reject
from cluster.bulk.packets import Empty, Header, JoinConfirm, Status, TokenGrant

if TYPE_CHECKING:
    from cluster.bulk.consumer import Consumer
    from cluster.bulk.effects import Context
    from cluster.bulk.master import Entry
    from cluster.bulk.packets import Complete, JoinRequest, TokenRequest
    from cluster.names import ProcessId

SILENCE_BEATS = 24  # heartbeats of silence after which the holder of a token has failed
REPEAT_BEATS = 16  # heartbeats after which a proposal that did not arrive in the order is repeated
IDLE_BEATS = 8  # heartbeats between empty packets when nothing happens


class Coordinator:
    """Its state is volatile: what a successor must know is in the replicated master."""

    __slots__ = ("_beat_at", "_busy_until", "_completed", "_consumer", "_context", "_heard", "_proposed", "_requests",
                 "_state_joins")  # fmt: skip

    def __init__(self, context: Context, consumer: Consumer) -> None:
        self._context = context
        self._consumer = consumer
        self.reset()

    def reset(self) -> None:
        """This process becomes the coordinator, or is it no longer."""
        self._beat_at = -inf
        self._busy_until = -inf
        self._requests: dict[ProcessId, int] = {}  # waiting for a token, first come, first served
        self._completed: dict[int, set[ProcessId]] = {}
        self._heard: dict[int, float] = {}  # when something was heard of the producer of a pending message
        self._proposed: dict[Entry, float] = {}
        self._state_joins: dict[ProcessId, int] = {}  # wait until no message is pending

    @property
    def is_active(self) -> bool:
        return self._context.coordinator == self._context.me

    # ---- inputs

    def on_request(self, sender: ProcessId, packet: TokenRequest) -> None:
        master = self._context.master
        request, number = master.granted.get(sender, (0, 0))
        if packet.request == request:
            self._send_token(sender, request, number)
        elif packet.request > request and sender in master.members:
            self._requests[sender] = packet.request
            self._settle()

    def on_join(self, sender: ProcessId, packet: JoinRequest) -> None:
        attempt, first = self._context.master.joined.get(sender, (0, 0))
        if packet.attempt == attempt:
            self._confirm(sender, attempt, first)
        elif packet.attempt > attempt:
            if not packet.with_state:
                self._propose(Join(sender, packet.attempt))
            else:
                self._state_joins[sender] = packet.attempt
                self._settle()

    def on_producer(self, number: int) -> None:
        """A packet of this message arrived: its producer is alive."""
        if number in self._heard:
            self._heard[number] = self._context.now

    def on_complete(self, sender: ProcessId, packet: Complete) -> None:
        if self._context.master.status(packet.number) is Status.PENDING:
            self._completed.setdefault(packet.number, set()).add(sender)
            self._settle()

    def applied(self, entry: Entry) -> None:
        """The replica applied an entry: announces what it decided."""
        self._proposed.pop(entry, None)
        context, master = self._context, self._context.master
        match entry:
            case Grant(producer, request) if master.granted.get(producer, (0, 0))[0] == request:
                self._requests.pop(producer, None)
                number = master.granted[producer][1]
                self._heard[number] = context.now
                self._send_token(producer, request, number)
            case Join(member, attempt) if master.joined.get(member, (0, 0))[0] == attempt:
                first = master.joined[member][1]
                if self._state_joins.pop(member, 0) == attempt:
                    context.outbox.append(SendState(member, first))
                self._confirm(member, attempt, first)
            case Accept() | Reject():
                self._announce()
            case _:
                pass
        for number in [number for number in self._heard if master.status(number) is not Status.PENDING]:
            del self._heard[number]
            self._completed.pop(number, None)
        self._settle()

    def tick(self) -> None:
        context = self._context
        now, beat = context.now, context.flow.heartbeat_s
        for entry in [entry for entry, at in self._proposed.items() if now >= at + REPEAT_BEATS * beat]:
            del self._proposed[entry]
        for number, _ in context.master.pending():
            if now >= self._heard.setdefault(number, now) + SILENCE_BEATS * beat:
                self._propose(Reject(number))
        self._settle()
        if now >= self._beat_at + (beat if self._is_busy() else IDLE_BEATS * beat):
            self._announce()

    def next_deadline(self) -> float:
        beat = self._context.flow.heartbeat_s
        return self._beat_at + (beat if self._is_busy() else IDLE_BEATS * beat)

    # ---- local actions

    def _settle(self) -> None:
        """Proposes what is possible now: acceptances, joins, grants."""
        context, master = self._context, self._context.master
        for number, completed in self._completed.items():
            voters = master.voters(number)
            if 2 * len(completed & voters) > len(voters):
                self._propose(Accept(number))
        if self._state_joins:  # no token is granted until a joining process can be given the state (section 3.4)
            if self._is_current(master.next):
                self._propose(Join(*next(iter(self._state_joins.items()))))
            return
        for producer, request in self._requests.items():
            if master.can_grant(producer, request):
                if not any(type(entry) is Grant for entry in self._proposed):
                    self._propose(Grant(producer, request))
                break
        self._busy_until = max(self._busy_until, context.now) if master.pending() else self._busy_until

    def _is_current(self, first: int) -> bool:
        """All messages below `first` are decided and delivered here, and none after them has begun."""
        master = self._context.master
        return not master.pending() and master.next == first and self._has_delivered(first)

    def _has_delivered(self, first: int) -> bool:
        consumer = self._consumer
        return not consumer.is_member or consumer.next_out == first

    def _propose(self, entry: Entry) -> None:
        if entry not in self._proposed:
            self._proposed[entry] = self._context.now
            self._context.outbox.append(Propose(entry))

    def _is_busy(self) -> bool:
        return bool(self._context.master.pending()) or self._context.now < self._busy_until

    def _announce(self) -> None:
        context = self._context
        self._beat_at = context.now
        if context.master.pending():
            self._busy_until = context.now + context.flow.retention * context.flow.heartbeat_s
        context.outbox.append(Multicast(Empty(self.header(), 0, 0, False)))

    def _send_token(self, producer: ProcessId, request: int, number: int) -> None:
        context = self._context
        context.send(producer, TokenGrant(self.header(), request, number, context.master.members))

    def _confirm(self, member: ProcessId, attempt: int, first: int) -> None:
        context = self._context
        context.send(member, JoinConfirm(self.header(), attempt, first, context.master.members))

    def header(self) -> Header:
        master = self._context.master
        return Header(master.session, master.next, tuple(master.recent[:T_MAX]), self._context.flow.parameters)
