"""Toy process with the inputs and effects of the real one, to test the simulator.

The founder orders everything: each submission goes to the founder, which appends it to its log and sends the whole log
to all connected nodes. It is slow and not a group protocol, but live while the founder is up, and faulty on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.actions import Deliver, Resolved, Submitted
from cluster.durable import Appended, Boot, Image
from cluster.entries import APPLICATION, Entry, pack_bodies
from cluster.layer import Context, Delivered, Effect, KnownPeers, Persist, PrimaryChanged, RandomSource, Send
from cluster.messages import AppMsg, Batch, Data, Frame, Hello, Plain, Proposal, Row, Supply
from cluster.names import Label, ProcessId, View, ViewId, make_view
from cluster.run_log import runs_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.settings import Settings
    from cluster.sim.history_machine import History

NO_VIEW = ViewId(0, "")


class Toy:
    """`fault` names a deliberate defect: "forget" (keeps no log on disk), "twice" (completes a ticket twice)."""

    def __init__(
        self,
        me: ProcessId,
        settings: Settings,
        image: Image,
        machine: History,
        chance: RandomSource,
        trace: Callable[[Action], None] | None = None,
        fault: str = "",
    ) -> None:
        self.context = Context(me, chance, trace)
        self.settings = settings
        self.machine = machine
        self.fault = fault
        self.leads = image.act is not None
        self.boot = image.boot + 1
        self.log: list[tuple[Label, Entry]] = []
        self.peers: list[ProcessId] = []
        self.leader: ProcessId | None = me if self.leads else None
        self.tickets: dict[bytes, int] = {}
        self.count = 0
        self.view: View | None = None
        self.beat = 0.0
        self.old = list(image.log.since(0))

    def start(self, now: float) -> None:
        self.context.now = self.beat = now
        self.context.outbox.append(Persist(Boot(self.boot)))
        self._append(self.old, keep=False)
        self._views()

    def tick(self, now: float) -> None:
        self.context.now = now
        self.beat = now + self.settings.heartbeat
        for peer in self.peers:
            self._share(peer)

    def connected(self, now: float, peer: ProcessId) -> None:
        self.context.now = now
        self.peers = sorted({*self.peers, peer})
        self._send(peer, Hello(self.boot, 0, 0, 0))
        self._share(peer)
        self._views()

    def disconnected(self, now: float, peer: ProcessId) -> None:
        self.context.now = now
        self.peers.remove(peer)
        if peer == self.leader and not self.leads:
            self._enter(None)
        self._views()

    def received(self, now: float, peer: ProcessId, frame: Frame) -> None:
        self.context.now = now
        assert peer in self.peers
        match frame:
            case Proposal(epoch=epoch, members=members, rows=rows):
                self.leader = peer
                self.context.outbox.append(KnownPeers(tuple(row.process for row in rows)))
                self._enter(make_view(epoch, dict.fromkeys(members, epoch)))
                self._share(peer)
            case Data(body=AppMsg(body=Plain(body=Batch(pack=pack)))):
                if self.leads:
                    known = {entry.body for _, entry in self.log}
                    new = [entry for entry in pack.entries() if entry.body not in known]
                    at = len(self.log)
                    self._append([(Label(NO_VIEW, at + i, peer), entry) for i, entry in enumerate(new)])
            case Data(body=Supply(runs=runs)):
                self._append([pair for run in runs for pair in run.labelled()][len(self.log) :])

    def submit(self, now: float, body: bytes) -> int:
        self.context.now = now
        self.count += 1
        self._trace(Submitted(self.count, body))
        self.tickets[body] = self.count
        if self.leads:
            self._append([(Label(NO_VIEW, len(self.log), self.context.me), Entry(APPLICATION, body))])
        elif self.leader in self.peers:
            self._share(self.leader)
        return self.count

    def performed(self, now: float, count: int) -> None:
        pass

    def leave(self, now: float) -> None:
        self.context.now = now

    def next_deadline(self) -> float:
        return self.beat

    def take(self) -> list[Effect]:
        outbox, self.context.outbox = self.context.outbox, []
        return outbox

    # ---- internals

    def _trace(self, action: Action) -> None:
        if self.context.trace is not None:
            self.context.trace(action)

    def _send(self, peer: ProcessId, frame: Frame) -> None:
        self.context.outbox.append(Send((peer,), frame))

    def _share(self, peer: ProcessId) -> None:
        if self.leads:
            supply = Supply(NO_VIEW, 0, 1, -1, b"", 0, tuple(runs_of(self.log)))
            self._send(peer, Data(1, 1, supply))
        elif peer == self.leader and self.tickets:
            self._send(peer, Data(1, 1, AppMsg(Plain(0, Batch(1, pack_bodies(list(self.tickets)))))))

    def _append(self, entries: list[tuple[Label, Entry]], *, keep: bool = True) -> None:
        if keep and entries and self.fault != "forget":
            position = len(self.log)
            for run in runs_of(entries):
                self.context.outbox.append(Persist(Appended(position, run)))
                position += run.pack.count
        for label, entry in entries:
            self._trace(Deliver(len(self.log), label, entry))
            self.log.append((label, entry))
            self.machine.apply(len(self.log) - 1, label.origin, entry.body)
            ticket = self.tickets.pop(entry.body, 0)
            for _ in range(0 if not ticket else 2 if self.fault == "twice" else 1):
                self._trace(Resolved(ticket, True, len(self.log) - 1, ""))
                self.context.outbox.append(Delivered(ticket, True, len(self.log) - 1, "", None))
        if entries and self.leads:
            for peer in self.peers:
                self._share(peer)

    def _views(self) -> None:
        if self.leads:
            members = sorted([self.context.me, *self.peers])
            view = make_view(self.boot * 1000 + len(members), dict.fromkeys(members, 1))
            rows = tuple(Row(member, (1, 1), ()) for member in members)
            for peer in self.peers:
                self._send(peer, Proposal(view.id.epoch, view.members, rows, False))
            self._enter(make_view(view.id.epoch, dict.fromkeys(members, view.id.epoch)))

    def _enter(self, view: View | None) -> None:
        if view != self.view:
            self.view = view
            self.context.outbox.append(PrimaryChanged(view))
