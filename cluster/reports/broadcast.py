"""Semantically reliable broadcast: reports reach every member, except those that a later report made obsolete.

Paper: Pereira, Rodrigues, Oliveira: Semantically Reliable Broadcast, figs. 1 to 3 and section 2.5. State variables keep
the paper's names: B, D, O_ij (`report_log`), I_ij (`peer_state`), Q_i (`delivery_queue`).
Departs:
- Within views, with f = floor((n - 1) / 2) of the current view; the paper has a fixed set of processes. All streams
  restart at a view change, and when a connection is replaced:
  1. Each member greets each other one: how far it holds each origin's reports. An origin continues toward a peer from
     what that peer holds, so a newcomer first receives the current value of every item.
  2. What an origin purged in earlier views was safe among the members of those views. So a greeting has a base, the
     last number that was safe when the view began, and a member that is behind it takes the reports up to the base all
     at once. It then confirms. Only what was confirmed in this view counts as held when `safe` is computed.
  3. A member forwards the reports of an origin that is gone to those of its companions (`ReportLog`) that lack some,
     all at once too. While the origin is in the view nobody forwards: one transmission per receiver.
- A process keeps the reports of some origins that are gone, and forgets those that left first.
- Acknowledgements go to the process that sent the window. The origin tells the others in its windows what is safe.
- A window states the range of numbers that it covers, so the receiver infers purged numbers at once. The window size w
  counts transmitted reports, purged since or not: streams lose nothing, and what was written cannot be taken back.
- A report that finds no room waits unnumbered (`publisher`). It is broadcast when it gets a number; a report replaced
  before was never broadcast.

Why a view change leaves no gap: let number m of an origin be missing at p, and its successor m' too. m was purged in
the view v in which p confirmed last, since p took everything up to the base of v at once. So more than f members of v
confirmed m' in v. Each of them forwards m' to p, unless p was separated from all of them, which are more than f.

Pure. The runner calls an input after setting `context.now`, then writes `next_frame` of each peer in `due` for as long
as the stream to that peer takes more, and takes deliveries at the pace of the application.
Above: the application.  Below: a FIFO stream to each peer; views of the end-point.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cluster.actions import (
    ReportBroadcast,
    ReportDeliver,
    ReportEnqueue,
    ReportForget,
    ReportPurge,
    ReportSafe,
)
from cluster.names import initial_view
from cluster.reports.delivery_queue import DeliveryQueue, QueuedReport
from cluster.reports.messages import ForwardedWindow, Greeting, Origin, OwnWindow, Report, Taken
from cluster.reports.peer_state import PeerPosition, PeerState
from cluster.reports.publisher import Publisher
from cluster.reports.report_log import KeptReport, ReportLog

if TYPE_CHECKING:
    from cluster.layer import Context
    from cluster.names import ProcessId, View
    from cluster.reports.messages import ReportFrame
    from cluster.reports.settings import ReportSettings


class InvalidReportFrame(Exception):
    """A peer sent a frame that no correct process would send at that moment."""


class SemanticBroadcast:
    """One process of FIFO-SRB."""

    def __init__(self, context: Context, settings: ReportSettings, life: int) -> None:
        self.context = context
        self.settings = settings
        self.me = Origin(context.me, life)
        self.view: View = initial_view(context.me)
        self.present: dict[ProcessId, Origin] = {}  # the life of each other member, once it has greeted us in a view
        self.base = 0  # `safe` of the own log when the view began
        self.B = 0  # number of the last report broadcast
        self.D: dict[Origin, int] = {}  # number of the last report delivered
        self.O: dict[Origin, ReportLog] = {self.me: ReportLog()}  # departed ones in the order they left
        self.I: dict[ProcessId, PeerState] = {}  # the name in the paper
        self.Q = DeliveryQueue(settings.queue_len_max, semantic=settings.semantic)
        self.own = Publisher(self, settings)
        self.due: set[ProcessId] = set()  # peers to which there may be something to write
        self.purged = 0  # purge_r_i(m), over all logs
        self.forwarded = 0  # reports sent on behalf of an origin that is gone

    @property
    def f(self) -> int:
        """How many members of the view may crash."""
        return (len(self.view.members) - 1) // 2

    # ---- broadcast

    def publish(self, item: str, value: bytes) -> None:
        """Broadcasts a report, or lets it wait for room. Raises ReportsFull or ValueError, and then did nothing."""
        self.own.publish(item, value)

    def broadcast(self, item: str, value: bytes, born: float) -> None:
        """TP1: broadcast_i(m), then TP2 for the process itself."""
        self.B += 1
        if self.context.trace is not None:
            self.context.trace(ReportBroadcast(self.me, self.B, item, value))
        report = KeptReport(item, value, born)
        for member in self.view.members:
            peer = self.I.get(member)
            if peer is not None:
                peer.unacked_len += 1
                peer.unacked_bytes += report.size
                self.due.add(member)
        self._enqueue(self.me, self.B, report, self.me.process)
        self._advance_safe()

    # ---- enqueue and deliver

    def _enqueue(self, origin: Origin, number: int, report: KeptReport, via: ProcessId) -> None:
        """TP2: enqueue_i(m, o). The log is the buffer toward all peers: it is what forwarding sends."""
        if self.context.trace is not None:
            self.context.trace(ReportEnqueue(origin, number, via))
        self.O[origin].append(number, report)
        self.Q.put(QueuedReport(origin, number, report))

    def deliver(self) -> QueuedReport | None:
        """TP3: deliver_i(m). None if nothing waits."""
        if not len(self.Q):
            return None
        queued = self.Q.pop()
        self.D[queued.origin] = queued.number
        if self.context.trace is not None:
            origin, number, report = queued
            self.context.trace(ReportDeliver(origin, number, report.item, report.value))
        if len(self.Q) == self.settings.queue_len_max - 1:  # it was full
            for member, peer in self.I.items():
                if peer.incoming:
                    self._take_incoming(member, peer)
            self.own.publish_pending()
        return queued

    # ---- safe and purge

    def _advance_safe(self) -> None:
        """safe_i(m) and TP5 for the own log: purge what a report held by more than f members makes obsolete."""
        held = sorted((self._confirmed_by(member) for member in self.view.members), reverse=True)
        log = self.O[self.me]
        if not self.settings.semantic:
            log.drop(held[-1])
            log.safe = held[-1]
            return
        safe = held[self.f]
        if safe > log.safe:
            if self.context.trace is not None:
                self.context.trace(ReportSafe(self.me, safe))
            log.advance_safe(safe, self._purge_own)

    def _confirmed_by(self, member: ProcessId) -> int:
        if member == self.me.process:
            return self.B
        peer = self.I.get(member)
        return peer.confirmed if peer is not None else 0

    def _purge_own(self, number: int, successor: int) -> None:
        size = self.O[self.me].kept[number].size
        for peer in self.I.values():
            position = peer.positions.get(self.me)
            if position is None or position.acknowledged < number:
                peer.unacked_len -= 1
                peer.unacked_bytes -= size
        self._purge(self.me, number, successor)

    def _purge(self, origin: Origin, number: int, successor: int) -> None:
        self.purged += 1
        if self.context.trace is not None:
            self.context.trace(ReportPurge(origin, number, successor))

    def _count_unacked(self, peer: PeerState) -> None:
        position, log = peer.positions.get(self.me), self.O[self.me]
        numbers = log.after(position.acknowledged if position is not None else 0)
        peer.unacked_len = len(numbers)
        peer.unacked_bytes = sum(log.kept[number].size for number in numbers)

    # ---- views and streams

    def on_view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        """view_p(v, T) of the end-point."""
        for log in self.O.values():
            log.companions.intersection_update(transitional)
        for member in self.view.members:
            if member not in transitional and (origin := self.present.pop(member, None)) in self.O:
                self.O[origin] = self.O.pop(origin)
        self.view = view
        self.base = self.O[self.me].safe
        self._forget_departed(transitional)
        for member in view.members:
            if member != self.me.process:
                self.I.setdefault(member, PeerState())
        for member, peer in list(self.I.items()):
            if member not in view.members and not peer.connected:
                del self.I[member]
                continue
            peer.restart(owes_greeting=peer.connected and member in view.members)
            peer.confirmed = 0
            self._count_unacked(peer)
            self.due.add(member)
        for member, peer in self.I.items():
            if peer.greeting is not None:
                self._on_greeting(member, peer, peer.greeting)
        self._advance_safe()
        self.own.publish_pending()

    def _forget_departed(self, transitional: tuple[ProcessId, ...]) -> None:
        """Forgets the origins that left first. Only here, because a greeting that was sent must stay true."""
        gone = [
            origin
            for origin in self.O
            if origin.process not in {*transitional, self.me.process}
            or self.present.get(origin.process, origin) != origin
        ]
        for origin in gone[: max(0, len(gone) - self.settings.departed_len_max)]:
            del self.O[origin]
            self.D.pop(origin, None)
            self.Q.forget(origin)
            if self.context.trace is not None:
                self.context.trace(ReportForget(origin))

    def on_connected(self, member: ProcessId) -> None:
        """A stream to this process began. It may replace another one."""
        peer = self.I.setdefault(member, PeerState())
        peer.connected = True
        peer.greeting = None
        peer.restart(owes_greeting=member in self.view.members)
        self.due.add(member)

    def on_disconnected(self, member: ProcessId) -> None:
        peer = self.I.get(member)
        if peer is not None:
            peer.connected = False
            peer.greeting = None
            peer.restart(owes_greeting=False)

    # ---- frames received

    def on_frame(self, member: ProcessId, frame: ReportFrame) -> None:
        """Raises InvalidReportFrame if the peer violates the protocol."""
        peer = self.I.get(member)
        if peer is None or not peer.connected:
            return
        if type(frame) is Greeting:
            self._on_greeting(member, peer, frame)
            self._advance_safe()
            self.own.publish_pending()
        elif not peer.greeted:
            return  # of an earlier view: it is sent again
        elif type(frame) is Taken:
            self._on_taken(member, peer, frame)
        elif type(frame) is OwnWindow:
            assert peer.greeting is not None
            self._on_window(member, peer, self.present[member], frame, peer.greeting.base)
        elif type(frame) is ForwardedWindow and frame.origin != self.me:
            self._on_window(member, peer, frame.origin, frame, frame.whole)

    def _on_greeting(self, member: ProcessId, peer: PeerState, greeting: Greeting) -> None:
        peer.greeting = greeting  # it may be for a view that we enter later
        peer.greeted = greeting.view_id == self.view.id and member in self.view.members
        if not peer.greeted:
            return
        origin = self.present[member] = Origin(member, greeting.life)
        numbers = dict(greeting.numbers)
        number = numbers.get(self.me, 0)
        if number > self.B:
            raise InvalidReportFrame(f"{member} holds report {number}, but only {self.B} were broadcast")
        peer.positions = {self.me: PeerPosition(number)}
        self._forward_departed(member, peer, numbers)
        self._count_unacked(peer)
        log = self.O.setdefault(origin, ReportLog())
        if log.held >= greeting.base:
            self._confirm(member, peer, origin)
        for each in self.I.values():
            each.positions.pop(origin, None)  # it is back and sends by itself
        self.due.update(self.I)

    def _forward_departed(self, member: ProcessId, peer: PeerState, numbers: dict[Origin, int]) -> None:
        for origin, log in self.O.items():
            if member not in log.companions or self.present.get(origin.process) == origin:
                continue
            number = numbers.get(origin, 0)
            if number < log.held:
                peer.positions[origin] = PeerPosition(number, log.held)
            else:
                log.companions.discard(member)

    def _confirm(self, member: ProcessId, peer: PeerState, origin: Origin) -> None:
        """The log has everything up to the base of its origin: it can be passed on to all members of the view."""
        log = self.O[origin]
        log.companions = set(self.view.members) - {self.me.process, member}
        peer.owes_ack[origin] = log.held

    def _on_taken(self, member: ProcessId, peer: PeerState, taken: Taken) -> None:
        position = peer.positions.get(taken.origin)
        if position is None:
            return
        if taken.origin == self.me and taken.number > self.B:
            raise InvalidReportFrame(f"{member} holds report {taken.number}, but only {self.B} were broadcast")
        position.acknowledge(taken.number)
        self.due.add(member)
        if taken.origin == self.me:
            peer.confirmed = max(peer.confirmed, taken.number)
            self._count_unacked(peer)
            self._advance_safe()
            self.own.publish_pending()
        elif position.end is not None and taken.number >= position.end:
            del peer.positions[taken.origin]
            self.O[taken.origin].companions.discard(member)

    def _on_window(
        self, member: ProcessId, peer: PeerState, origin: Origin, window: OwnWindow | ForwardedWindow, whole: int
    ) -> None:
        log = self.O.setdefault(origin, ReportLog())
        staged = peer.staged.get(origin, [])
        behind = max(
            [log.held, *(each.upto for each in staged), *(each.upto for of, each in peer.incoming if of == origin)]
        )
        numbers = [window.after, *(report.number for report in window.reports)]
        if window.after > behind or window.upto < numbers[-1] or sorted(set(numbers)) != numbers:
            raise InvalidReportFrame(
                f"{member} sent reports {window.after} to {window.upto} of {origin} after {behind}"
            )
        kept_len = len(log.kept) + peer.staged_len + len(window.reports)
        if kept_len > 2 * (self.settings.buffer_len_max + self.settings.items_len_max):
            raise InvalidReportFrame(f"{member} sent more than {kept_len} reports of {origin} that are not obsolete")
        if len(peer.incoming) > 2 * self.settings.window_len:
            raise InvalidReportFrame(f"{member} sent {len(peer.incoming)} windows beyond what was acknowledged")
        self.due.add(member)
        if log.held >= whole:
            peer.incoming.append((origin, window))
            self._take_incoming(member, peer)
        elif window.upto < whole:
            peer.staged.setdefault(origin, []).append(window)
            peer.staged_len += len(window.reports)
            peer.owes_ack[origin] = window.upto
        else:
            self._take_whole(member, peer, origin, [*peer.staged.pop(origin, ()), window])

    def _take_whole(
        self, member: ProcessId, peer: PeerState, origin: Origin, windows: list[OwnWindow | ForwardedWindow]
    ) -> None:
        """TP2 for a whole log. The delivery queue may exceed its bound by that."""
        log = self.O[origin]
        for window in windows:
            for report in window.reports:
                if report.number > log.held:
                    self._take(member, origin, report)
            self._cover(member, origin, window)
        peer.staged_len -= sum(len(window.reports) for window in windows[:-1])
        last = windows[-1]
        if type(last) is ForwardedWindow:
            others = {member, *last.companions}.intersection(self.view.members)
            log.companions |= others - {self.me.process, origin.process}
            peer.owes_ack[origin] = log.held
        else:
            self._confirm(member, peer, origin)

    def _take_incoming(self, member: ProcessId, peer: PeerState) -> None:
        """TP2 as far as the delivery queue has room. The rest stays unacknowledged, which stops the sender."""
        while peer.incoming:
            origin, window = peer.incoming[0]
            log = self.O[origin]
            self.due.add(member)
            for report in window.reports[peer.taken :]:
                if report.number > log.held:
                    if not self.Q.has_room(origin, report.item):
                        return
                    self._take(member, origin, report)
                    peer.owes_ack[origin] = log.held
                peer.taken += 1
            peer.taken = 0
            peer.incoming.popleft()
            self._cover(member, origin, window)
            peer.owes_ack[origin] = log.held

    def _take(self, member: ProcessId, origin: Origin, report: Report) -> None:
        born = self.context.now - report.age_ms / 1e3
        self._enqueue(origin, report.number, KeptReport(report.item, report.value, born), member)

    def _cover(self, member: ProcessId, origin: Origin, window: OwnWindow | ForwardedWindow) -> None:
        """The window is taken: reports that it skips at its end were purged; those that it calls safe are safe."""
        log = self.O[origin]
        if window.upto > log.held:
            if self.context.trace is not None:
                self.context.trace(ReportEnqueue(origin, window.upto, member))
            log.cover(window.upto)
        if type(window) is OwnWindow:
            if self.settings.semantic:
                log.advance_safe(window.safe, partial(self._purge, origin))
            else:
                log.drop(window.safe)

    # ---- frames to send

    def next_frame(self, member: ProcessId) -> ReportFrame | None:
        """The next frame to write to this peer. None: nothing now; the peer is in `due` again when there is."""
        peer = self.I.get(member)
        frame = self._next_frame(peer) if peer is not None and peer.connected else None
        if frame is None:
            self.due.discard(member)
        return frame

    def _next_frame(self, peer: PeerState) -> ReportFrame | None:
        if peer.owes_greeting:
            peer.owes_greeting = False
            numbers = tuple((origin, log.held) for origin, log in sorted(self.O.items()))
            return Greeting(self.view.id, self.me.life, self.base, numbers)
        if not peer.greeted:
            return None
        if peer.owes_ack:
            return Taken(*peer.owes_ack.popitem())
        for origin, position in peer.positions.items():
            log = self.O[origin]
            window = self._next_window(peer, log, position)
            if window is not None:
                after, reports = window
                if position.end is None:
                    return OwnWindow(after, position.sent, log.safe, reports)
                self.forwarded += len(reports)
                companions = tuple(sorted(log.companions))
                return ForwardedWindow(origin, position.end, companions, after, position.sent, reports)
        return None

    def _next_window(
        self, peer: PeerState, log: ReportLog, position: PeerPosition
    ) -> tuple[int, tuple[Report, ...]] | None:
        """The reports that the peer lacks, as far as its window and the size of a frame allow, oldest first."""
        after, end = position.sent, log.held if position.end is None else position.end
        if after >= end:
            return None
        numbers = [number for number in log.after(after) if number <= end]
        room = self.settings.window_len - peer.in_flight_len
        reports: list[Report] = []
        size = 0
        for number in numbers[: max(0, room)]:
            item, value, born = kept = log.kept[number]
            size += kept.size
            if reports and size > self.settings.frame_bytes:
                break
            reports.append(Report(number, item, value, max(0, round(1e3 * (self.context.now - born)))))
            position.in_flight.append(number)
        if len(reports) == len(numbers):
            position.sent = end
        elif reports:
            position.sent = reports[-1].number
        else:
            return None
        return after, tuple(reports)
