"""Semantically reliable broadcast: reports reach every member, except those that a later report made obsolete.

Paper: Pereira, Rodrigues, Oliveira: Semantically Reliable Broadcast, figs. 1 to 3 and section 2.5. State variables keep
the paper's names: B, D, O_ij (`report_log`), I_ij (`peer_state`), Q_i (`delivery_queue`).
Departs:
- Within views, with f = floor((n - 1) / 2) of the current view; the paper has a fixed set of processes. At a view
  change, `HeldNumbers` frames tell what each member holds. An origin then continues toward each member from there, so a
  newcomer first receives the current value of every item. A member forwards the reports of an origin that is gone to
  members that moved together with it, met the origin and lack reports. While the origin is in the view nobody
  forwards: one transmission per receiver. A process that never met the origin, or has forgotten it, gets nothing: the
  forwarder may hold only a part, or forget the origin before it has sent everything.
- Acknowledgements go to the process that sent the window. The origin tells the others in its windows what is safe.
- A window states the range of numbers that it covers, so the receiver infers purged numbers at once. The window size w
  counts transmitted reports, purged since or not: streams lose nothing, and what was written cannot be taken back.
- A report that finds no room waits unnumbered, and its successor takes its place there. It is broadcast when it gets a
  number; a report replaced before was never broadcast.

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
from cluster.reports.messages import ForwardedWindow, HeldNumbers, Origin, OwnWindow, Report, Taken
from cluster.reports.peer_state import PeerPosition, PeerState
from cluster.reports.report_log import KeptReport, ReportLog

if TYPE_CHECKING:
    from cluster.layer import Context
    from cluster.names import ProcessId, View
    from cluster.reports.messages import ReportFrame
    from cluster.reports.settings import ReportSettings

UNHEARD_LEN_MAX = 256  # members that left before a process heard from them and that it remembers


class ReportsFull(Exception):
    """A report cannot be published: a bound is reached. The message names the bound."""


class InvalidReportFrame(Exception):
    """A peer sent a frame that no correct process would send at that moment."""


class SemanticBroadcast:
    """One process of FIFO-SRB."""

    def __init__(self, context: Context, settings: ReportSettings, life: int) -> None:
        self.context = context
        self.settings = settings
        self.me = Origin(context.me, life)
        self.view: View = initial_view(context.me)
        self.together: frozenset[ProcessId] = frozenset()  # the other members that moved into the view with us
        self.present: dict[ProcessId, Origin] = {}  # the current life of each other member, from HeldNumbers
        # Origins of which we hold reports and that are not present. For each, the members that were with us when it
        # left, have been with us since, and never told that they know it: they may have missed all of its reports.
        self.departed: dict[Origin, set[ProcessId]] = {}
        self.unheard: dict[ProcessId, set[ProcessId]] = {}  # the same for members that left before we heard from them
        self.B = 0  # number of the last report broadcast
        self.D: dict[Origin, int] = {}  # number of the last report delivered
        self.O: dict[Origin, ReportLog] = {self.me: ReportLog()}  # the name in the paper
        self.I: dict[ProcessId, PeerState] = {}  # the name in the paper
        self.Q = DeliveryQueue(settings.queue_len_max, semantic=settings.semantic)
        self.pending: dict[str, tuple[bytes, float]] = {}  # reports that wait for room, unnumbered: value, birth
        self.due: set[ProcessId] = set()  # peers to which there may be something to write
        self.items: set[str] = set()  # own items
        self.replaced = 0  # reports replaced before they were broadcast
        self.purged = 0  # purge_r_i(m), over all logs
        self.forwarded = 0  # reports sent on behalf of an origin that is gone

    @property
    def f(self) -> int:
        """How many members of the view may crash."""
        return (len(self.view.members) - 1) // 2

    # ---- broadcast

    def publish(self, item: str, value: bytes) -> None:
        """Broadcasts a report, or lets it wait for room. Raises ReportsFull or ValueError, and then did nothing."""
        settings = self.settings
        if not 0 < len(item) <= settings.item_len_max:
            raise ValueError(f"an item has a name of 1 to {settings.item_len_max} characters, not {len(item)}")
        if len(value) > settings.value_len_max:
            raise ValueError(
                f"the value of {item!r} has {len(value)} bytes; at most {settings.value_len_max} are allowed"
            )
        if settings.semantic and item not in self.items and len(self.items) >= settings.items_len_max:
            raise ReportsFull(
                f"{item!r} would be item {len(self.items) + 1}; at most {settings.items_len_max} are allowed"
            )
        if not self.pending and self._has_room(item):
            self._broadcast(item, value, self.context.now)
        elif item not in self.pending and len(self.pending) >= settings.pending_len_max:
            raise ReportsFull(self._why_full())
        else:
            if self.pending.pop(item, None) is not None:
                self.replaced += 1
            self.pending[item] = (value, self.context.now)
        if settings.semantic:
            self.items.add(item)

    def _has_room(self, item: str) -> bool:
        settings = self.settings
        for member in self.view.members:
            peer = self.I.get(member)
            if peer is not None and (
                peer.unacked_len >= settings.buffer_len_max or peer.unacked_bytes >= settings.buffer_bytes_max
            ):
                return False
        return self.Q.has_room(self.me, item)

    def _why_full(self) -> str:
        members = [member for member in self.view.members if member in self.I]
        if not members or len(self.Q) >= self.settings.queue_len_max:
            return (
                f"{len(self.Q)} reports wait for delivery to this application, and {len(self.pending)} items for room"
            )
        slowest = max(members, key=lambda member: self.I[member].unacked_len)
        peer = self.I[slowest]
        return (
            f"{slowest} has not acknowledged {peer.unacked_len} reports ({peer.unacked_bytes} bytes) that nothing made "
            f"obsolete, and {len(self.pending)} more items wait; publish fewer items, or raise the bounds"
        )

    def _broadcast(self, item: str, value: bytes, born: float) -> None:
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
        self._enqueue(self.me, self.B, report)
        self._advance_safe()

    def _broadcast_pending(self) -> None:
        while self.pending:
            item = next(iter(self.pending))
            if not self._has_room(item):
                return
            value, born = self.pending.pop(item)
            self._broadcast(item, value, born)

    # ---- enqueue and deliver

    def _enqueue(self, origin: Origin, number: int, report: KeptReport) -> None:
        """TP2: enqueue_i(m, o). The log is the buffer toward all peers: it is what forwarding sends."""
        if self.context.trace is not None:
            self.context.trace(ReportEnqueue(origin, number))
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
            self._broadcast_pending()
        return queued

    # ---- safe and purge

    def _advance_safe(self) -> None:
        """safe_i(m) and TP5 for the own log: purge what a report held by more than f members makes obsolete."""
        held = sorted((self._acknowledged_by(member) for member in self.view.members), reverse=True)
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

    def _acknowledged_by(self, member: ProcessId) -> int:
        if member == self.me.process:
            return self.B
        peer = self.I.get(member)
        position = peer.positions.get(self.me) if peer is not None else None
        return position.acknowledged if position is not None else 0

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
        self.together = frozenset(transitional) - {self.me.process}
        self._note_departures(gone=[member for member in self.view.members if member not in transitional])
        self.view = view
        for member in view.members:
            if member != self.me.process:
                self.I.setdefault(member, PeerState())
        for member, peer in list(self.I.items()):
            if member not in view.members and not peer.connected:
                del self.I[member]
                continue
            if member in self.together:
                own = peer.positions.get(self.me)
                peer.positions = {self.me: own} if own is not None else {}  # HeldNumbers frames tell what to forward
                peer.keep_own_windows()
            else:
                peer.positions.clear()
                peer.greeted = False
                peer.incoming.clear()
                peer.taken = 0
            self._count_unacked(peer)
            peer.owes_held = peer.connected and member in view.members
            self.due.add(member)
        self._forget_departed()
        for member, peer in list(self.I.items()):
            if peer.early is not None and peer.early.view_id == view.id:
                self._on_held(member, peer, peer.early)
        self._advance_safe()
        self._broadcast_pending()

    def _note_departures(self, gone: list[ProcessId]) -> None:
        for unaware in (*self.departed.values(), *self.unheard.values()):
            unaware &= self.together
        for member in gone:
            origin = self.present.pop(member, None)
            if origin is not None:
                self.departed[origin] = set(self.together)
            elif member != self.me.process:
                self.unheard.pop(member, None)
                self.unheard[member] = set(self.together)
                for known, unaware in self.departed.items():
                    if known.process == member:  # it may have been back in this life
                        unaware |= self.together
        self.unheard = {member: unaware for member, unaware in self.unheard.items() if unaware}
        while len(self.unheard) > UNHEARD_LEN_MAX:
            del self.unheard[next(iter(self.unheard))]

    def _forget_departed(self) -> None:
        gone = [
            origin
            for origin in self.departed
            if origin.process not in self.view.members
            or (origin.process in self.present and self.present[origin.process] != origin)
            or origin.process == self.me.process
        ]
        for origin in gone[: max(0, len(self.departed) - self.settings.departed_len_max)]:
            del self.departed[origin]
            self.O.pop(origin, None)
            self.D.pop(origin, None)
            self.Q.forget(origin)
            for peer in self.I.values():
                peer.positions.pop(origin, None)
            if self.context.trace is not None:
                self.context.trace(ReportForget(origin))

    def on_connected(self, member: ProcessId) -> None:
        """A stream to this process began. It may replace another one."""
        peer = self.I.setdefault(member, PeerState())
        peer.reset_stream(connected=True)
        peer.owes_held = member in self.view.members
        self.due.add(member)

    def on_disconnected(self, member: ProcessId) -> None:
        peer = self.I.get(member)
        if peer is not None:
            peer.reset_stream(connected=False)

    # ---- frames received

    def on_frame(self, member: ProcessId, frame: ReportFrame) -> None:
        """Raises InvalidReportFrame if the peer violates the protocol."""
        peer = self.I.get(member)
        if peer is None or not peer.connected:
            return
        if type(frame) is HeldNumbers:
            self._on_held(member, peer, frame)
        elif type(frame) is Taken:
            self._on_taken(member, peer, frame)
        elif type(frame) is OwnWindow:
            if peer.greeted:
                self._on_window(member, peer, self.present[member], frame)
        elif type(frame) is ForwardedWindow and (
            frame.view_id == self.view.id and peer.greeted and frame.origin != self.me
        ):
            self._on_window(member, peer, frame.origin, frame)

    def _on_held(self, member: ProcessId, peer: PeerState, held: HeldNumbers) -> None:
        if held.view_id != self.view.id:
            peer.early = held if held.view_id > self.view.id else None
            if peer.early is None and member in self.together and self.present.get(member) == Origin(member, held.life):
                self._greet(peer, dict(held.numbers).get(self.me, 0))  # it sends already, on a new stream
            return
        peer.early = None
        origin = Origin(member, held.life)
        numbers = dict(held.numbers)
        if numbers.get(self.me, 0) > self.B:
            raise InvalidReportFrame(f"{member} holds report {numbers[self.me]}, but only {self.B} were broadcast")
        self.departed.pop(origin, None)
        before = self.present.get(member)
        if before is not None and before != origin:
            self.departed[before] = set(self.together)
        self.present[member] = origin
        self._greet(peer, numbers.get(self.me, 0))
        if member in self.together:
            for other, log in self.O.items():
                unaware = self.departed.get(other)
                if unaware is None or not (other in numbers or member in unaware):
                    continue
                if other in numbers:
                    unaware.discard(member)
                if numbers.get(other, 0) < log.held:
                    peer.positions[other] = PeerPosition(numbers.get(other, 0))
        self._count_unacked(peer)
        self.due.add(member)
        self._advance_safe()
        self._broadcast_pending()

    def _greet(self, peer: PeerState, number: int) -> None:
        if not peer.greeted:  # what was sent before on this stream, or on another one, was not taken
            peer.greeted = True
            peer.positions = {self.me: PeerPosition(number)}
        else:
            peer.positions[self.me].acknowledge(number)

    def _on_taken(self, member: ProcessId, peer: PeerState, taken: Taken) -> None:
        position = peer.positions.get(taken.origin)
        if position is None or not peer.greeted:
            return
        if taken.origin == self.me and taken.number > self.B:  # of other origins it may hold more than we do
            raise InvalidReportFrame(f"{member} holds report {taken.number}, but only {self.B} were broadcast")
        position.acknowledge(taken.number)
        self.departed.get(taken.origin, set()).discard(member)
        self.due.add(member)
        if taken.origin == self.me:
            self._count_unacked(peer)
            self._advance_safe()
            self._broadcast_pending()

    def _on_window(
        self, member: ProcessId, peer: PeerState, origin: Origin, window: OwnWindow | ForwardedWindow
    ) -> None:
        log = self.O.get(origin)
        if log is None:
            log = self.O[origin] = ReportLog()
            if self.present.get(origin.process) != origin:
                self.departed[origin] = self.unheard.pop(origin.process, set())
        behind = max([log.held, *(waiting.upto for of, waiting in peer.incoming if of == origin)])
        numbers = [window.after, *(report.number for report in window.reports)]
        if window.after > behind or window.upto < numbers[-1] or sorted(set(numbers)) != numbers:
            raise InvalidReportFrame(
                f"{member} sent reports {window.after} to {window.upto} of {origin} after {behind}"
            )
        if len(log.kept) + len(window.reports) > 2 * (self.settings.buffer_len_max + self.settings.items_len_max):
            raise InvalidReportFrame(
                f"{member} sent more than {len(log.kept)} reports of {origin} that are not obsolete"
            )
        if len(peer.incoming) > 2 * self.settings.window_len:
            raise InvalidReportFrame(f"{member} sent {len(peer.incoming)} windows beyond what was acknowledged")
        peer.incoming.append((origin, window))
        self._take_incoming(member, peer)

    def _take_incoming(self, member: ProcessId, peer: PeerState) -> None:
        """TP2 for what the delivery queue has room for. The rest stays unacknowledged, which stops the sender."""
        while peer.incoming:
            origin, window = peer.incoming[0]
            log = self.O[origin]
            for report in window.reports[peer.taken :]:
                if report.number > log.held:
                    if not self.Q.has_room(origin, report.item):
                        return
                    born = self.context.now - report.age_ms / 1e3
                    self._enqueue(origin, report.number, KeptReport(report.item, report.value, born))
                    peer.owes_ack[origin] = log.held
                    self.due.add(member)
                peer.taken += 1
            peer.taken = 0
            peer.incoming.popleft()
            if window.upto > log.held:
                if self.context.trace is not None:
                    self.context.trace(ReportEnqueue(origin, window.upto))
                log.cover(window.upto)
            if type(window) is OwnWindow:
                if self.settings.semantic:
                    log.advance_safe(window.safe, partial(self._purge, origin))
                else:
                    log.drop(window.safe)
            peer.owes_ack[origin] = log.held
            self.due.add(member)
            self.due.update(other for other, state in self.I.items() if origin in state.positions)

    # ---- frames to send

    def next_frame(self, member: ProcessId) -> ReportFrame | None:
        """The next frame to write to this peer. None: nothing now; the peer is in `due` again when there is."""
        peer = self.I.get(member)
        frame = self._next_frame(member, peer) if peer is not None and peer.connected else None
        if frame is None:
            self.due.discard(member)
        return frame

    def _next_frame(self, member: ProcessId, peer: PeerState) -> ReportFrame | None:
        if peer.owes_held:
            peer.owes_held = False
            numbers = tuple((origin, log.held) for origin, log in sorted(self.O.items()))
            return HeldNumbers(self.view.id, self.me.life, numbers)
        if peer.owes_ack:
            return Taken(*peer.owes_ack.popitem())
        if not peer.greeted or member not in self.view.members:
            return None
        for origin in [origin for origin in peer.positions if self.present.get(origin.process) == origin]:
            del peer.positions[origin]  # the origin is back and sends by itself; first, since this makes room
        for origin, position in peer.positions.items():
            window = self._next_window(peer, self.O[origin], position)
            if window is not None:
                after, reports = window
                if origin == self.me:
                    return OwnWindow(after, position.sent, self.O[origin].safe, reports)
                self.forwarded += len(reports)
                return ForwardedWindow(self.view.id, origin, after, position.sent, reports)
        return None

    def _next_window(
        self, peer: PeerState, log: ReportLog, position: PeerPosition
    ) -> tuple[int, tuple[Report, ...]] | None:
        """The reports that the peer lacks, as far as its window and the size of a frame allow, oldest first."""
        after = position.sent
        if after >= log.held:
            return None
        numbers = log.after(after)
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
            position.sent = log.held
        elif reports:
            position.sent = reports[-1].number
        else:
            return None
        return after, tuple(reports)
