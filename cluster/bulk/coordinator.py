"""Coordinator: the member that acts as the master towards producers and consumers.

Paper: Freier and Marzullo, TR 90-1141, fig. 1, sections 3.4 and 5.2. Every process has this automaton; it acts only at
the lowest-ranked member of the primary view. It announces nothing that is not in its replica of the master, which
changes by ordered entries alone.
Departs: fig. 1 accepts a message when the master has its last packet. Here a message is accepted when a majority of the
members in the primary view that receive it has all of its packets (`Complete`), so that an accepted message survives
the crash of its producer and of the coordinator. A producer has failed if it is not in the primary view and nothing was
heard of it for SILENCE_BEATS heartbeats, or SILENCE_IN_VIEW_BEATS if it is; or if it says so (`NakDeny`). A member has
failed if it was in no primary view for ABSENCE_BEATS. Time in which this process was not scheduled does not count.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from cluster.bulk.effects import Multicast, Propose
from cluster.bulk.master import Accept, AddMember, ChangeView, Grant, MarkReady, Reject, RemoveMember
from cluster.bulk.packets import EmptyPacket, Header, JoinConfirm, Status, TokenGrant

if TYPE_CHECKING:
    from cluster.bulk.effects import BulkContext
    from cluster.bulk.master import Entry
    from cluster.bulk.packets import Complete, JoinRequest, TokenRequest
    from cluster.names import ProcessId

SILENCE_BEATS = 24  # heartbeats of silence after which the holder of a token has failed
SILENCE_IN_VIEW_BEATS = 250  # the same for a holder in the primary view, of which the group knows that it is alive
PAUSE_BEATS = 12  # heartbeats without a tick that are a pause of this process
ABSENCE_BEATS = 50  # heartbeats outside the primary view after which a member has failed
REPEAT_BEATS = 16  # heartbeats after which a proposal that did not arrive in the order is repeated
BUSY_BEATS = 2  # heartbeats between empty packets while messages are pending
IDLE_BEATS = 8  # the same when nothing happens
NO_REQUEST = (0, 0)


class Coordinator:
    """Its state is volatile: a successor finds all that it needs in the replicated master."""

    __slots__ = ("_absent", "_beat_at", "_busy_until", "_completed", "_context", "_heard", "_proposed", "_requests",
                 "_ticked_at")  # fmt: skip

    def __init__(self, context: BulkContext) -> None:
        self._context = context
        self.reset()

    def reset(self) -> None:
        """This process becomes the coordinator, or is it no longer."""
        self._beat_at = -inf
        self._busy_until = -inf
        self._ticked_at = self._context.now
        self._requests: dict[ProcessId, int] = {}  # waiting for a token, first come, first served
        self._completed: dict[int, set[ProcessId]] = {}
        self._heard: dict[int, float] = {}  # when something was heard of the producer of a pending message
        self._absent: dict[ProcessId, float] = {}  # members outside the primary view, and since when
        self._proposed: dict[Entry, float] = {}

    @property
    def is_active(self) -> bool:
        return self._context.coordinator == self._context.me

    # ---- inputs

    def on_request(self, sender: ProcessId, packet: TokenRequest) -> None:
        master = self._context.master
        request, number = master.granted.get(sender, NO_REQUEST)
        if packet.request == request:
            self._send_token(sender, request, number)
        elif packet.request > request and sender in master.joined:
            self._requests[sender] = packet.request
            self._settle()

    def on_join(self, sender: ProcessId, packet: JoinRequest) -> None:
        master = self._context.master
        joined = master.joined.get(sender)
        if joined is not None and joined.attempt == packet.attempt:
            self._confirm(sender)
        elif master.can_join(sender, packet.attempt, with_state=packet.with_state) or (
            joined is not None and joined.is_ready and packet.attempt > joined.attempt
        ):
            self._propose(AddMember(sender, packet.attempt, packet.with_state))

    def on_producer(self, number: int) -> None:
        """A packet of this message arrived: its producer is alive."""
        if number in self._heard:
            self._heard[number] = self._context.now

    def on_deny(self, sender: ProcessId, number: int) -> None:
        """The holder of a token gives it back: it has no content for it."""
        if (number, sender) in self._context.master.pending():
            self._propose(Reject(number))

    def on_complete(self, sender: ProcessId, packet: Complete) -> None:
        master = self._context.master
        joined = master.joined.get(sender)
        if packet.view != master.views:  # late: the sender may have restarted since
            return
        if joined is not None and joined.first == packet.number:
            if not joined.is_ready:
                self._propose(MarkReady(sender, packet.number))
        elif master.status(packet.number) is Status.PENDING:
            self._completed.setdefault(packet.number, set()).add(sender)
            self._settle()

    def applied(self, entry: Entry) -> None:
        """The replica applied an entry: announces the decisions in it."""
        self._proposed.pop(entry, None)
        context, master = self._context, self._context.master
        match entry:
            case Grant(producer, request) if master.granted.get(producer, NO_REQUEST)[0] == request:
                self._requests.pop(producer, None)
                number = master.granted[producer][1]
                self._heard[number] = context.now
                self._send_token(producer, request, number)
            case AddMember(member, attempt) if member in master.joined and master.joined[member].attempt == attempt:
                self._confirm(member)
                self._announce()
            case Accept() | Reject() | RemoveMember():
                self._announce()
            case ChangeView():  # a process may have restarted: those that still have a message tell so again
                self._completed.clear()
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
        if now >= self._ticked_at + PAUSE_BEATS * beat:
            self._heard = dict.fromkeys(self._heard, now)
        self._ticked_at = now
        for number, producer in context.master.pending():
            beats = SILENCE_IN_VIEW_BEATS if producer in context.master.primary else SILENCE_BEATS
            if now >= self._heard.setdefault(number, now) + beats * beat:
                self._propose(Reject(number))
        self._remove_absent()
        self._settle()
        if now >= self.next_deadline():
            self._announce()

    def next_deadline(self) -> float:
        return self._beat_at + (BUSY_BEATS if self._is_busy() else IDLE_BEATS) * self._context.flow.heartbeat_s

    # ---- local actions

    def _settle(self) -> None:
        """Proposes what is possible now: decisions and grants."""
        master = self._context.master
        for number, _ in master.pending():
            holders = self._completed.get(number, set())
            if not master.voters(number):  # no member receives it any more
                self._propose(Reject(number))
            elif master.can_accept(number, holders) and not self._is_accepting(number):
                self._propose(Accept(number, tuple(sorted(holders)), master.views))
        if any(type(entry) is Grant for entry in self._proposed):
            return
        for producer, request in self._requests.items():
            if master.can_grant(producer, request):
                self._propose(Grant(producer, request))
                break

    def _is_accepting(self, number: int) -> bool:
        views = self._context.master.views
        return any(type(entry) is Accept and (entry.number, entry.view) == (number, views) for entry in self._proposed)

    def _remove_absent(self) -> None:
        context = self._context
        absent = [member for member in context.master.joined if member not in context.master.primary]
        self._absent = {member: self._absent.get(member, context.now) for member in absent}
        for member, since in self._absent.items():
            if context.now >= since + ABSENCE_BEATS * context.flow.heartbeat_s:
                self._propose(RemoveMember(member, context.master.joined[member].first))

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
        context.outbox.append(Multicast(EmptyPacket(self._header(), 0, 0, False)))

    def _send_token(self, producer: ProcessId, request: int, number: int) -> None:
        self._context.send(producer, TokenGrant(self._header(), request, number))

    def _confirm(self, member: ProcessId) -> None:
        joined = self._context.master.joined[member]
        confirm = JoinConfirm(self._header(), joined.attempt, joined.first, joined.members, joined.giver)
        self._context.send(member, confirm)

    def _header(self) -> Header:
        master = self._context.master
        return Header(master.session, master.next, tuple(master.recent), self._context.flow.parameters)
