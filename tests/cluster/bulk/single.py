"""One process of the transport under test, with packets and statuses that the test makes up."""

from __future__ import annotations

from typing import TypeVar

from cluster.bulk.effects import Multicast, SendTo
from cluster.bulk.flow_control import FlowControl
from cluster.bulk.master import AddMember, ChangeView, Entry, Master
from cluster.bulk.packets import DataPacket, Header, JoinConfirm, Parameters, RecentMessage, ShortHeader, Status
from cluster.bulk.process import BulkProcess
from cluster.names import ProcessId
from cluster.sim.bulk.memory import MemorySource, MemorySpool
from cluster.sim.seeded_random import SeededRandom

A, B, C = (ProcessId(name) for name in "abc")
BEAT = 0.02
Item = TypeVar("Item")


class Single:
    """The process and its clock. `a` coordinates; three members have joined by messages 1 to 3."""

    def __init__(self, me: ProcessId) -> None:
        self.now = 0.0
        self.spool = MemorySpool()
        flow = FlowControl(heartbeat_ms=20, window=8, dally=0)
        self.process = BulkProcess(me, Master(7), flow, self.spool, SeededRandom(1))
        self.next = 1
        self.slots: list[RecentMessage] = []
        self.apply(ChangeView((A, B, C)))
        self.process.primary_changed(self.now, is_in=True)
        for member in (A, B, C):
            self.apply(AddMember(member, 1, with_state=False))
            self.add(RecentMessage(Status.JOINED, member))
        self.receive(A, JoinConfirm(self.header(), 1, 3, (A, B, C), None))
        self.take()

    def add(self, slot: RecentMessage) -> int:
        """Another message has begun, in the headers that the others send."""
        self.slots.insert(0, slot)
        self.next += 1
        return self.next - 1

    def decide(self, number: int, status: Status) -> None:
        at = self.next - 1 - number
        self.slots[at] = RecentMessage(status, self.slots[at].producer)

    def header(self) -> Header:
        return Header(7, self.next, tuple(self.slots[:8]), Parameters(20, 8, 12))

    def short_header(self) -> ShortHeader:
        statuses = tuple(slot.status for slot in self.slots[:8])
        return ShortHeader(7, self.next, statuses, Parameters(20, 8, 12))

    def apply(self, entry: Entry) -> None:
        self.process.apply(self.now, entry)

    def receive(self, sender: ProcessId, packet: object) -> None:
        self.process.received(self.now, sender, packet)  # type: ignore[arg-type]

    def data(self, number: int, packet: int, *, is_end: bool = False) -> None:
        producer = self.slots[self.next - 1 - number].producer
        self.receive(producer, DataPacket(self.short_header(), number, packet, is_end, b"%d" % packet))

    def send(self, packets: int, rate_min: float = 0.0) -> int:
        request = self.process.send(self.now, MemorySource([b"%d" % at for at in range(packets)]), rate_min)
        self.process.tick(self.now)
        return request

    def beats(self, count: float) -> None:
        end = self.now + count * BEAT
        while (deadline := self.process.next_deadline()) <= end:
            self.now = max(self.now, deadline) + 1e-9
            self.process.tick(self.now)
        self.now = end
        self.process.tick(self.now)

    def take(self) -> list[object]:
        return list(self.process.take())

    def sent(self, kind: type[Item]) -> list[Item]:
        """The packets of this kind that were sent since the last `take`, which this is."""
        packets = [effect.packet for effect in self.take() if isinstance(effect, SendTo | Multicast)]
        return [packet for packet in packets if isinstance(packet, kind)]
