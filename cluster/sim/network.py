"""Simulated network: one FIFO connection per pair of nodes, which may stall, break and reconnect.

A frame takes a random time. Links are independent, so frames of different links overtake each other. A cut direction
stalls, as TCP does: frames in flight arrive late, after the cut has healed, or never, because the connection was given
up first. A broken connection loses its frames in flight, and each end learns of it at its own time. A pair in which one
knows the other reconnects some time later. A connection needs both directions. If both nodes dial, a new connection
replaces a working one: each end switches to it at its own time and stops reading the old one.
Above: nodes.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.messages import Frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.names import ProcessId
    from cluster.sim.event_queue import EventQueue
    from cluster.sim.seeded_random import SeededRandom

DIAL_BACKOFF_MAX = 8  # factor on the usual delay

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


class Delays(msgspec.Struct, frozen=True):
    """Delays in seconds. With `jitter` and `spike_share` 0 every frame takes `base`."""

    base: float = 0.001
    jitter: float = 0.0  # mean of the additional delay
    spike_share: float = 0.0  # share of frames that meet a queue on the way
    spike: float = 0.0  # mean delay of that queue
    notice_max: float = 0.01  # until an end learns that its connection broke
    dial: float = 0.05  # between two connection attempts
    give_up_min: float = 1.0  # minimum time before a stalled connection is given up
    give_up_max: float = 8.0


FIXED = Delays()


class NetworkNode(Protocol):
    """The part of a node that the network uses."""

    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> ProcessId: ...
    @property
    def answers(self) -> bool: ...  # whether a process runs there and is not paused
    def wants(self, name: str) -> bool: ...  # whether a process there would connect to this one
    def connect(self, peer: ProcessId, channel: OneWayChannel, life: int) -> None: ...
    def disconnect(self, peer: ProcessId, life: int) -> None: ...
    def frame(self, sender: ProcessId, frame: Frame) -> None: ...


class OneWayChannel:
    """One direction between two nodes."""

    __slots__ = ("cuts", "destination", "in_flight", "last", "opened", "slowness", "source", "turn", "wire")

    def __init__(self, wire: Wire, source: NetworkNode, destination: NetworkNode) -> None:
        self.wire = wire
        self.source = source
        self.destination = destination
        self.cuts = 0  # number of active cuts
        self.slowness = 1.0  # factor on delays
        self.in_flight: deque[Frame] = deque()
        self.last = 0.0  # arrival time of the last frame
        self.opened = 0.0  # when the destination learns of the connection
        self.turn = 0  # generation: arrivals scheduled before the last cut, heal or break are void


class Wire:
    """The two directions between two nodes, and their connection, if any."""

    __slots__ = ("back", "chance", "dialing", "ends", "failed", "first", "forth", "life", "pids", "up")

    def __init__(self, one: NetworkNode, other: NetworkNode, chance: SeededRandom) -> None:
        self.ends = (one, other)
        self.chance = chance
        self.forth = OneWayChannel(self, one, other)
        self.back = OneWayChannel(self, other, one)
        self.up = False
        self.life = 0  # number of the current connection, or of the next one
        self.first = 0  # number of the first connection of an unbroken chain of replacements
        self.pids = (one.pid, other.pid)  # the processes at the two ends
        self.dialing = False
        self.failed = 0  # consecutive failed attempts

    @property
    def cut(self) -> bool:
        return self.forth.cuts > 0 or self.back.cuts > 0


class SimNetwork:
    """All wires of a world."""

    def __init__(
        self, events: EventQueue, chance: SeededRandom, delays: Delays, sometimes: Counter[str], *, coded: bool = False
    ) -> None:
        self.events = events
        self.delays = delays
        self._chance = chance
        self._coded = coded  # encode and decode every frame, to find frames that cannot be sent
        self._sometimes = sometimes
        self._wires: dict[tuple[str, str], Wire] = {}
        self._ends: dict[str, NetworkNode] = {}

    # ---- topology

    def add(self, end: NetworkNode) -> None:
        for name in sorted(self._ends):
            first, second = (self._ends[name], end) if name < end.name else (end, self._ends[name])
            key = (first.name, second.name)
            self._wires[key] = Wire(first, second, self._chance.fork(f"{key[0]}-{key[1]}"))
        self._ends[end.name] = end
        for wire in self.wires_of(end.name):
            self._redial(wire)

    def wire(self, one: str, other: str) -> Wire:
        return self._wires[(one, other) if one < other else (other, one)]

    def wires_of(self, name: str) -> list[Wire]:
        return [wire for key, wire in self._wires.items() if name in key]

    def channel(self, source: str, destination: str) -> OneWayChannel:
        wire = self.wire(source, destination)
        return wire.forth if wire.forth.source.name == source else wire.back

    def pairs_between(self, groups: Iterable[Iterable[str]]) -> list[tuple[str, str]]:
        """The directed pairs whose ends are in different groups."""
        found: list[tuple[str, str]] = []
        for one, other in combinations([sorted(group) for group in groups], 2):
            found.extend((a, b) for a in one for b in other)
            found.extend((b, a) for a in one for b in other)
        return found

    # ---- frames

    def carry(self, channel: OneWayChannel, life: int, frame: Frame) -> None:
        """Send a frame on the connection that the source believes is current: number `life`."""
        wire = channel.wire
        if not wire.up or wire.life != life:
            self._sometimes["frame sent into a broken connection"] += 1
            return
        if self._coded:
            back = _DECODER.decode(_ENCODER.encode(frame))
            if back != frame:
                raise ValueError(f"a frame changed when it was encoded and decoded: {frame!r} became {back!r}")
            frame = back
        channel.in_flight.append(frame)
        if not channel.cuts:
            self._plan_arrival(channel)

    def _plan_arrival(self, channel: OneWayChannel) -> None:
        time = self.events.now + self._delay(channel)
        if time < channel.last:
            time = channel.last
        channel.last = time
        self.events.at(time, self._arrive, channel, channel.turn)

    def _delay(self, channel: OneWayChannel) -> float:
        delays = self.delays
        delay = delays.base
        if delays.jitter:
            chance = channel.wire.chance
            delay += chance.exponential(delays.jitter)
            if delays.spike_share and chance.random() < delays.spike_share:
                return delay * channel.slowness + chance.exponential(delays.spike)
        return delay * channel.slowness

    def _arrive(self, channel: OneWayChannel, turn: int) -> None:
        if turn == channel.turn:
            wire = channel.wire
            sender = wire.pids[0] if channel is wire.forth else wire.pids[1]
            channel.destination.frame(sender, channel.in_flight.popleft())

    # ---- connections

    def dial(self, one: str, other: str) -> None:
        """Connect these two as soon as possible, and again whenever the connection is lost."""
        if one in self._ends and other in self._ends:
            wire = self.wire(one, other)
            wire.failed = 0
            self._redial(wire)

    def _redial(self, wire: Wire) -> None:
        one, other = wire.ends
        wanted = one.wants(other.name) or other.wants(one.name)
        if wanted and not wire.dialing and not wire.up:
            wire.dialing = True
            pause = self.delays.dial * min(1 << wire.failed, DIAL_BACKOFF_MAX)
            self.events.after(pause * (0.5 + wire.chance.random()), self._attempt, wire)

    def _attempt(self, wire: Wire) -> None:
        wire.dialing = False
        if wire.up:
            return
        one, other = wire.ends
        if wire.cut or not (one.answers and other.answers):
            wire.failed += 1
            self._redial(wire)
            return
        wire.failed = 0
        wire.up = True
        wire.first = wire.life
        wire.pids = (one.pid, other.pid)
        self._connect(wire)

    def replace(self, wire: Wire) -> bool:
        """Replace the connection by a second one of the same two nodes. Frames in flight are lost."""
        if not wire.up or wire.cut or not all(end.answers for end in wire.ends):
            return False
        self._sometimes["frames lost with a connection"] += bool(wire.forth.in_flight or wire.back.in_flight)
        wire.life += 1
        self._connect(wire)
        return True

    def _connect(self, wire: Wire) -> None:
        self._drop(wire.forth)
        self._drop(wire.back)
        if wire.chance.hits(0.5):
            self._open(wire, wire.forth, wire.back)
        else:
            self._open(wire, wire.back, wire.forth)

    def _open(self, wire: Wire, first: OneWayChannel, second: OneWayChannel) -> None:
        """The source of `first` learns of the connection now, its destination a message delay later."""
        self._sometimes["connection"] += 1
        later = self.events.now + self._delay(first)
        for channel in (first, second):
            channel.last = channel.opened = later
        self.events.at(later, self._accept, wire, second, wire.life)
        first.source.connect(self._pid_of(wire, first.destination), first, wire.life)

    def _accept(self, wire: Wire, channel: OneWayChannel, life: int) -> None:
        if wire.up and wire.life == life:
            channel.source.connect(self._pid_of(wire, channel.destination), channel, life)

    @staticmethod
    def _pid_of(wire: Wire, end: NetworkNode) -> ProcessId:
        return wire.pids[0] if end is wire.ends[0] else wire.pids[1]

    def break_connection(
        self, wire: Wire, *, silent_for: NetworkNode | None = None, sent_by: NetworkNode | None = None
    ) -> bool:
        """Break the connection. The node `silent_for` learns of it only when it gives up, or at the next connection.

        Frames in flight are lost, except those `sent_by` this end, whose host still delivers them.
        """
        if not wire.up:
            self._drop(wire.forth)
            self._drop(wire.back)
            return False
        wire.up = False
        self._sometimes["connection broken"] += 1
        for channel in (wire.forth, wire.back):
            if channel.source is sent_by and not channel.cuts and channel.opened <= self.events.now:
                self._sometimes["frames outlive their sender"] += bool(channel.in_flight)
                continue
            self._sometimes["frames lost with a connection"] += bool(channel.in_flight)
            self._drop(channel)
        for end, peer, incoming in (
            (wire.ends[0], wire.pids[1], wire.back), (wire.ends[1], wire.pids[0], wire.forth),
        ):  # fmt: skip
            delay = wire.chance.random() * self.delays.notice_max
            if end is silent_for:
                delay = wire.chance.between(self.delays.give_up_min, self.delays.give_up_max)
            last = incoming.last if incoming.in_flight else self.events.now
            for life in range(wire.first, wire.life + 1):  # the end may not have switched to the last one yet
                self.events.at(max(last, self.events.now + delay), end.disconnect, peer, life)
        wire.life += 1
        self._redial(wire)
        return True

    @staticmethod
    def _drop(channel: OneWayChannel) -> None:
        """Drop the frames in flight."""
        channel.turn += 1
        channel.in_flight.clear()

    # ---- network faults

    def cut(self, source: str, destination: str) -> None:
        """Stop this direction. Cuts are counted: each must be mended."""
        channel = self.channel(source, destination)
        channel.cuts += 1
        if channel.cuts > 1:
            self._sometimes["cuts overlap"] += 1
            return
        channel.turn += 1
        wire = channel.wire
        if not wire.up:
            channel.in_flight.clear()
        else:
            if channel.in_flight:
                self._sometimes["cut with frames on their way"] += 1
            patience = wire.chance.between(self.delays.give_up_min, self.delays.give_up_max)
            self.events.after(patience, self._give_up, wire, wire.life)

    def _give_up(self, wire: Wire, life: int) -> None:
        if wire.up and wire.life == life and wire.cut:
            self._sometimes["stalled connection given up"] += 1
            self.break_connection(wire)

    def mend(self, source: str, destination: str) -> None:
        """Remove one cut of this direction."""
        channel = self.channel(source, destination)
        if not channel.cuts:
            return
        channel.cuts -= 1
        if channel.cuts:
            return
        if channel.wire.up and channel.in_flight:
            self._sometimes["stalled frames arrive late"] += 1
        self._plan_anew(channel)

    def slow_down(self, one: str, other: str, factor: float) -> None:
        """Multiply all delays between the two by `factor`, also of frames in flight."""
        wire = self.wire(one, other)
        for channel in (wire.forth, wire.back):
            channel.slowness = factor
            if not channel.cuts:
                self._plan_anew(channel)

    def _plan_anew(self, channel: OneWayChannel) -> None:
        """Reschedule the frames in flight from their source."""
        channel.turn += 1
        channel.last = max(self.events.now, channel.opened)
        if not channel.wire.up:
            channel.in_flight.clear()  # frames that outlived their sender are lost now
        for _ in channel.in_flight:
            self._plan_arrival(channel)

    def mend_all(self) -> None:
        for (one, other), wire in self._wires.items():
            if wire.forth.slowness != 1.0:
                self.slow_down(one, other, 1.0)
            for channel in (wire.forth, wire.back):
                while channel.cuts:
                    self.mend(channel.source.name, channel.destination.name)
