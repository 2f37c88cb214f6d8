"""Simulation of a bottleneck (figure 4 of "Semantically Reliable Broadcast"): one slow receiver or one narrow link.

Paper: Semantically Reliable Broadcast, section 3.2. The automata are the real ones. The model is the paper's: one
producer and five processes, queues
between all processes, a time for each report on the narrow link or at the slow receiver, and bounded buffers. Time is
virtual; the capacity of the bottleneck is 100 reports per second.
"""

from __future__ import annotations

import msgspec

from cluster.layer import Context
from cluster.names import ProcessId, make_view
from cluster.reports.broadcast import SemanticBroadcast
from cluster.reports.messages import ForwardedWindow, OwnWindow, ReportFrame
from cluster.reports.publisher import ReportsFull
from cluster.reports.settings import ReportSettings
from cluster.sim.event_queue import EventQueue
from cluster.sim.seeded_random import SeededRandom

PROCESSES = 5
CAPACITY_PER_S = 100.0  # of the bottleneck
FAST = 20.0  # how many times faster everything else is
LATENCY_S = 0.001
STOCKS = ((25, 0.5), (100, 0.4), (750, 0.1))  # the stock-trading table: items, and their share of the updates
RECEIVER, LINK = "receiver", "link"


class BottleneckRun(msgspec.Struct, frozen=True):
    """Measurements at one load."""

    bottleneck: str  # RECEIVER or LINK
    semantic: bool
    buffer_len: int
    load: float  # offered, in multiples of the capacity of the bottleneck
    throughput: float  # accepted from the producer, in the same unit
    latency_s: float  # mean of the reports that the process behind the bottleneck delivered
    purged_share: float  # of the accepted reports: never delivered there


def draw_item(chance: SeededRandom) -> str:
    """An item by the frequencies of the stock-trading table."""
    at, first = chance.random(), 0
    for count, share in STOCKS[:-1]:
        if at < share:
            return str(first + chance.below(count))
        at -= share
        first += count
    return str(first + chance.below(STOCKS[-1][0]))


class BottleneckSimulation:
    """One run."""

    def __init__(self, bottleneck: str, *, semantic: bool, buffer_len: int, load: float, seed: int = 1) -> None:
        self.bottleneck, self.load = bottleneck, load
        self.events = EventQueue(handled_max=50_000_000)
        self.chance = SeededRandom(seed)
        settings = ReportSettings(
            semantic=semantic, window_len=4, buffer_len_max=buffer_len, queue_len_max=buffer_len, pending_len_max=0,
            frame_bytes=1,
        )  # fmt: skip
        self.names = [ProcessId(name) for name in "abcde"[:PROCESSES]]
        self.of = {name: SemanticBroadcast(Context(name, self.chance), settings, 1) for name in self.names}
        self.producer, self.last = self.names[0], self.names[-1]
        self.link_free: dict[tuple[ProcessId, ProcessId], float] = {}
        self.waking: set[tuple[ProcessId, ProcessId]] = set()
        self.consuming: set[ProcessId] = set()
        self.accepted = self.delivered = 0
        self.latency_sum = 0.0
        self.measuring = False
        self.next_item: str | None = None
        view = make_view(1, dict.fromkeys(self.names, 1))
        for name in self.names:
            self.of[name].on_view(view, (name,))
            for other in self.names:
                if other != name:
                    self.of[name].on_connected(other)
        for name in self.names:
            self.act(name)

    def run(self, warm_up_s: float, lasts_s: float) -> BottleneckRun:
        self.events.run_until(0.5)
        self.events.after(0.0, self.produce)
        self.events.run_until(0.5 + warm_up_s)
        self.measuring = True
        self.events.run_until(0.5 + warm_up_s + lasts_s)
        settings = self.of[self.producer].settings
        return BottleneckRun(
            self.bottleneck, settings.semantic, settings.buffer_len_max, self.load,
            self.accepted / lasts_s / CAPACITY_PER_S,
            self.latency_sum / max(1, self.delivered),
            max(0.0, 1 - self.delivered / max(1, self.accepted)),
        )  # fmt: skip

    def produce(self) -> None:
        """The next update is due. If there is no room the producer waits, and the updates after it come later."""
        self.next_item = draw_item(self.chance)
        self.try_publish()

    def try_publish(self) -> None:
        if self.next_item is None:
            return
        source = self.of[self.producer]
        source.context.now = self.events.now
        try:
            source.publish(self.next_item, b"")
        except ReportsFull:
            return
        self.next_item = None
        self.accepted += self.measuring
        self.events.after(1 / (self.load * CAPACITY_PER_S), self.produce)
        self.act(self.producer)

    def act(self, name: ProcessId) -> None:
        """Write as much as the links take, and let the application take the next report."""
        process = self.of[name]
        process.context.now = self.events.now
        for peer in sorted(process.due):
            self.write(name, peer)
        if len(process.Q) and name not in self.consuming:
            self.consuming.add(name)
            is_slow = self.bottleneck == RECEIVER and name == self.last
            self.events.after((1 if is_slow else 1 / FAST) / CAPACITY_PER_S, self.consume, name)

    def consume(self, name: ProcessId) -> None:
        self.consuming.discard(name)
        process = self.of[name]
        process.context.now = self.events.now
        queued = process.deliver()
        if queued is not None and name == self.last and self.measuring:
            self.delivered += 1
            self.latency_sum += self.events.now - float(queued.report.born)
        self.act(name)
        self.try_publish()

    def write(self, name: ProcessId, peer: ProcessId) -> None:
        process = self.of[name]
        free = self.link_free.get((name, peer), 0.0)
        while free <= self.events.now:
            frame = process.next_frame(peer)
            if frame is None:
                return
            reports = len(frame.reports) if isinstance(frame, OwnWindow | ForwardedWindow) else 0
            is_narrow = self.bottleneck == LINK and peer == self.last
            free = self.events.now + reports * (1 if is_narrow else 1 / FAST) / CAPACITY_PER_S
            self.link_free[name, peer] = free
            self.events.at(free + LATENCY_S, self.arrive, name, peer, frame)
        if (name, peer) not in self.waking:
            self.waking.add((name, peer))
            self.events.at(free, self.wake, name, peer)

    def wake(self, name: ProcessId, peer: ProcessId) -> None:
        self.waking.discard((name, peer))
        self.of[name].context.now = self.events.now
        self.write(name, peer)

    def arrive(self, sender: ProcessId, name: ProcessId, frame: ReportFrame) -> None:
        self.of[name].context.now = self.events.now
        self.of[name].on_frame(sender, frame)
        self.act(name)
        self.try_publish()
