"""A simulated process: the protocol stack, report streams beside its links, and a slow application.

A report stream lives and dies with the connection to the peer. `Pace` limits it: a narrow link takes time for every
byte, a slow receiver takes time for every report. A submission that begins with `REPORT` is published as a report.
Above: `cluster.sim.node`.  Below: `cluster.stack`, `cluster.reports.broadcast`.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any, cast

from cluster.layer import Context, Delivered, Effect, Send
from cluster.reports.broadcast import SemanticBroadcast
from cluster.reports.frames import decode_report_frame, encode_report_frame
from cluster.reports.messages import ForwardedWindow, Greeting, OwnWindow, Taken
from cluster.reports.publisher import ReportsFull
from cluster.reports.view_tap import ReportsViewTap
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.durable import Image
    from cluster.layer import RandomSource
    from cluster.messages import Frame
    from cluster.names import ProcessId
    from cluster.replica import StateMachine
    from cluster.reports.settings import ReportSettings
    from cluster.settings import Settings

REPORT = b"report "
REPORT_FRAMES = (OwnWindow, ForwardedWindow, Taken, Greeting)


class Pace:
    """How fast one node takes reports, and how fast its links are. Survives crashes of the process."""

    def __init__(self) -> None:
        self.consume_s = 0.0  # seconds for each delivered report
        self.bytes_per_s: dict[str, float] = {}  # of the links to these nodes; others are unlimited


class ReportingProcess:
    """A `cluster.stack.Process` with reports, for the simulator."""

    def __init__(
        self,
        me: ProcessId,
        settings: Settings,
        image: Image,
        machine: StateMachine,
        chance: RandomSource,
        trace: Callable[[Action], None] | None,
        *,
        report_settings: ReportSettings,
        pace: Pace,
        sometimes: Counter[str],
    ) -> None:
        self._pace = pace
        self._sometimes = sometimes
        self._clock = Context(me, chance, trace)
        self.reports = SemanticBroadcast(self._clock, report_settings, image.boot + 1)
        taps = {"endpoint": lambda _process, order: ReportsViewTap(self.reports, order)}
        self.stack = Process(me, settings, image, machine, chance, trace, taps)
        self.context = self.stack.context
        self.sent: Counter[tuple[str, ProcessId]] = Counter()  # reports sent, by kind of frame and receiver
        self._published = 0
        self._consumer_at = 0.0  # when the application takes the next report
        self._busy_until: dict[ProcessId, float] = {}

    # ---- inputs

    def start(self, now: float) -> None:
        self._clock.now = now
        self.stack.start(now)

    def tick(self, now: float) -> None:
        self._clock.now = now
        self.stack.tick(now)

    def connected(self, now: float, peer: ProcessId) -> None:
        self._clock.now = now
        self._busy_until.pop(peer, None)
        self.stack.connected(now, peer)
        self.reports.on_connected(peer)

    def disconnected(self, now: float, peer: ProcessId) -> None:
        self._clock.now = now
        self.stack.disconnected(now, peer)
        self.reports.on_disconnected(peer)

    def received(self, now: float, peer: ProcessId, frame: Frame) -> None:
        self._clock.now = now
        if isinstance(frame, REPORT_FRAMES):
            self.reports.on_frame(peer, frame)
        else:
            self.stack.received(now, peer, frame)

    def submit(self, now: float, body: bytes) -> int:
        self._clock.now = now
        if not body.startswith(REPORT):
            return self.stack.submit(now, body)
        self._published += 1
        item, _, value = body.removeprefix(REPORT).partition(b"=")
        try:
            self.reports.publish(item.decode(), value)
        except ReportsFull:
            self._sometimes["a report was refused"] += 1
        self.context.outbox.append(Delivered(-self._published, True, -1, "", None))
        return -self._published

    def performed(self, now: float, count: int) -> None:
        self._clock.now = now
        self.stack.performed(now, count)

    def leave(self, now: float) -> None:
        self._clock.now = now
        self.stack.leave(now)

    # ---- outputs

    def take(self) -> list[Effect]:
        self._consume()
        self._write_streams()
        return self.stack.take()

    def _consume(self) -> None:
        now = self._clock.now
        while len(self.reports.Q) and now >= self._consumer_at:
            self.reports.deliver()
            self._consumer_at = now + self._pace.consume_s
        if len(self.reports.Q) >= self.reports.settings.queue_len_max:
            self._sometimes["a delivery queue was full"] += 1

    def _write_streams(self) -> None:
        now = self._clock.now
        for peer in sorted(self.reports.due):
            while now >= self._busy_until.get(peer, 0.0):
                frame = self.reports.next_frame(peer)
                if frame is None:
                    break
                data = encode_report_frame(frame)
                if isinstance(frame, OwnWindow | ForwardedWindow):
                    self.sent[type(frame).__name__, peer] += len(frame.reports)
                    self._sometimes["a purged number was skipped"] += frame.upto - frame.after > len(frame.reports)
                    self._sometimes["reports were forwarded"] += isinstance(frame, ForwardedWindow)
                speed = self._pace.bytes_per_s.get(peer.name, inf)
                self._busy_until[peer] = now + len(data) / speed
                self.context.outbox.append(Send((peer,), cast("Any", decode_report_frame(data))))

    def next_deadline(self) -> float:
        deadline = self.stack.next_deadline()
        if len(self.reports.Q):
            deadline = min(deadline, self._consumer_at)
        for peer in self.reports.due:
            busy_until = self._busy_until.get(peer, 0.0)
            if busy_until > self._clock.now:
                deadline = min(deadline, busy_until)
        return deadline

    # ---- state, for the checkers of the stack

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is left to send, to take or to deliver."""
        reports = self.reports
        return not (
            reports.own.pending
            or len(reports.Q)
            or any(peer.incoming or peer.owes_ack or peer.in_flight_len for peer in reports.I.values())
            or any(
                position.sent < (reports.O[origin].held if position.end is None else position.end)
                for member in reports.view.members
                if member in reports.I
                for origin, position in reports.I[member].positions.items()
            )
        )
