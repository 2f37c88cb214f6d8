"""Simulated node: a host with its own disk and clock, and the process that runs on it, if any.

The node is the runtime of its process: it hands in inputs one by one, performs effects in order, and wakes the process
at its deadline. A write may take time. The process handles inputs meanwhile, and effects behind the write wait. A
reported action enters the trace between the effects where it was reported, so a crash between two effects also cuts the
trace there: nothing that depended on a write that never happened was seen by any observer. What the state machine
received enters the trace at once, since it cannot be undone.
Above: the world.  Below: network, disk, the process.
"""

from __future__ import annotations

from collections import Counter, deque
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, cast

from cluster.actions import SEEN, Action, Crashed, Recovered
from cluster.layer import (
    Context,
    Delivered,
    DeliveredRun,
    Effect,
    InterimAnswered,
    InterimRefreshed,
    KnownPeers,
    LoadChanged,
    Persist,
    PrimaryChanged,
    QueryAnswered,
    Send,
)
from cluster.layer import RandomSource as AnyChance
from cluster.names import ProcessId, View
from cluster.sim.disk import SimDisk
from cluster.sim.history_machine import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.durable import Image
    from cluster.messages import Frame
    from cluster.settings import Settings
    from cluster.sim.event_queue import EventQueue
    from cluster.sim.network import OneWayChannel, SimNetwork
    from cluster.sim.seeded_random import SeededRandom
    from cluster.stack import Process

TICK, FRAME, CONNECT, DISCONNECT, SUBMIT, LEAVE, WRITTEN, REQUEST, QUERY, WITHDRAW, LOAD = range(11)
FLUSHED_SHARE = 0.7  # share of a crashed process's connections that still deliver what it sent
ROUNDING = 1e-6  # a deadline this close counts as reached


class SimulatedProcess(Protocol):
    """A process as described in `cluster.stack`: inputs, then the effects that they cause."""

    @property
    def context(self) -> Context: ...
    def start(self, now: float) -> None: ...
    def tick(self, now: float) -> None: ...
    def connected(self, now: float, peer: ProcessId) -> None: ...
    def disconnected(self, now: float, peer: ProcessId) -> None: ...
    def received(self, now: float, peer: ProcessId, frame: Frame) -> None: ...
    def submit(self, now: float, body: bytes) -> int: ...
    def performed(self, now: float, count: int) -> None: ...
    def leave(self, now: float) -> None: ...
    def next_deadline(self) -> float: ...
    def take(self) -> list[Effect]: ...


class ProcessFactory(Protocol):
    """Makes a process from the content of its disk: `cluster.stack.Process`, or a substitute."""

    def __call__(
        self,
        me: ProcessId,
        settings: Settings,
        image: Image,
        machine: History,
        chance: AnyChance,
        trace: Callable[[Action], None] | None,
    ) -> SimulatedProcess: ...


class InvalidEffect(Exception):
    """The process requested an effect that no runtime can perform."""


class NodeObserver(Protocol):
    """Sees what happens on a node: the world."""

    def step(self, process: ProcessId, action: Action) -> None: ...
    def sent(self, process: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> None: ...
    def handled(self, process: ProcessId) -> None: ...
    def load_changed(self, process: ProcessId, load: LoadChanged) -> None: ...


class ClientListener(Protocol):
    """Receives the outcomes of the requests that clients make at a node."""

    def accepted(self, node: SimNode, body: bytes, ticket: int) -> None: ...
    def ended(self, node: SimNode, end: Delivered | QueryAnswered) -> None: ...
    def crashed(self, node: SimNode) -> None: ...


class SimNode:
    """A host and its current process."""

    __slots__ = (
        "_busy", "_chance", "_clock_last", "_clock_offset", "_crashed", "_done", "_effects", "_events", "_inbox",
        "_make", "_network", "_notes", "_out", "_performing", "_settings", "_sometimes", "_wake_at", "_watch",
        "_writable", "_writing", "clients", "contacts",
        "crash_after", "delivered_count", "disk", "gone", "input_cost", "known", "leaving", "machine", "name",
        "paused", "pending", "pid", "primary", "process", "refused_count",
        "requested", "silent_share", "started_count", "write_cost", "write_time",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        make: ProcessFactory,
        settings: Settings,
        events: EventQueue,
        network: SimNetwork,
        chance: SeededRandom,
        watch: NodeObserver,
        sometimes: Counter[str],
        *,
        contacts: tuple[str, ...],
        founds: bool,
        coded: bool,
    ) -> None:
        self.name = name
        self.pid = ProcessId(name)
        self.contacts = contacts
        self.disk = SimDisk(coded=coded)
        if founds:
            self.disk.found(self.pid)
        self.process: SimulatedProcess | None = None
        self.machine = History()
        self.primary: View | None = None
        self.pending: dict[int, bytes] = {}  # open submissions of this life: ticket -> body
        self.requested: dict[int, bytes] = {}  # open requests to the interim or data service: ticket -> body
        self.clients: ClientListener | None = None
        self.delivered_count = 0
        self.refused_count = 0
        self.known: set[str] = set(contacts)
        self.started_count = 0
        self.paused = False
        self.leaving = False
        self.gone = False  # left or lost for good
        self.input_cost = 0.0  # seconds per input
        self.write_cost = 0.0  # additional seconds per write
        self.write_time = 0.0  # duration of a write; the process handles inputs meanwhile
        self.silent_share = 0.5  # share of crashes without a disconnect
        self.crash_after = -1  # crash after this many effects; -1: never
        self._make = make
        self._settings = settings
        self._events = events
        self._network = network
        self._chance = chance
        self._watch = watch
        self._sometimes = sometimes
        self._notes: deque[tuple[int, Action]] = deque()  # (number of effects before the action, the action)
        self._effects: deque[Effect] = deque()  # effects not performed yet
        self._done = 0  # effects performed in this life
        self._writing = False  # a write is in progress
        self._writable = 0  # number of waiting effects that belong to the finished write
        self._out: dict[ProcessId, tuple[OneWayChannel, int]] = {}
        self._inbox: deque[tuple[int, Any, Any]] = deque()
        self._busy = False
        self._performing = False  # faults that strike meanwhile wait
        self._crashed = False  # this process existed before and will recover
        self._wake_at = inf  # virtual time of the next wake-up
        self._clock_offset = 0.0
        self._clock_last = 0.0

    # ---- start and crash

    def start(self) -> None:
        """Start a process from the content of the disk."""
        if self.process is not None or self.gone:
            return
        self.started_count += 1
        image = self.disk.read()
        if self._crashed:
            self._watch.step(self.pid, Recovered(image.boot + 1))
        self.machine = History()
        self._done = 0
        chance = self._chance.fork(f"life {self.started_count}")
        self.process = self._make(self.pid, self._settings, image, self.machine, chance, self._note)
        self.process.start(self.clock())
        self._perform(self.process)
        for name in sorted(self.known):
            self._network.dial(self.name, name)
        self._drain()

    def crash(self, *, silent: bool = False, disk_lost: bool = False) -> bool:
        """Crash the process. `silent`: peers get no disconnect, as in a power failure."""
        if self.process is None:
            return False
        self._watch.step(self.pid, Crashed(disk_lost))
        if self.clients is not None:
            self.clients.crashed(self)
        if self._writing:
            self._sometimes["crash during a write"] += 1
        self.process = None
        self._crashed = not disk_lost
        self.primary = None
        self.paused = self._busy = self._writing = False
        self._writable = 0
        self.crash_after = -1
        self._wake_at = inf
        if self.pending:
            self._sometimes["crash with submissions in doubt"] += 1
        for forgotten in (self._effects, self._notes, self._inbox, self._out, self.pending, self.requested):
            forgotten.clear()
        for wire in self._network.wires_of(self.name):
            other = wire.ends[0] if wire.ends[1] is self else wire.ends[1]
            flushed = self if not silent and self._chance.hits(FLUSHED_SHARE) else None
            self._network.break_connection(wire, silent_for=other if silent else None, sent_by=flushed)
        if disk_lost:
            self.disk.lose()
            self.pid = ProcessId(self.name, self.pid.incarnation + 1)
        return True

    def leave(self) -> None:
        self.leaving = True
        self.put(LEAVE, None, None)

    # ---- the clock

    def clock(self) -> float:
        """The process's clock: it never goes back, but may jump forward or stand still."""
        time = self._events.now + self._clock_offset
        if time < self._clock_last:
            return self._clock_last
        self._clock_last = time
        return time

    @property
    def stands_still(self) -> bool:
        """Whether the clock was set back and has not reached its old time again."""
        return self._events.now + self._clock_offset + ROUNDING < self._clock_last

    def jump_clock(self, seconds: float) -> None:
        self._clock_offset += seconds
        if self.process is not None:
            self._wake_at = inf
            self._arm(self.process)

    def _arm(self, process: SimulatedProcess) -> None:
        deadline = process.next_deadline() - self._clock_offset
        if deadline < self._wake_at:
            self._wake_at = deadline
            self._events.at(deadline, self._wake, deadline)

    def _wake(self, deadline: float) -> None:
        if deadline == self._wake_at:
            self._wake_at = inf
            self.put(TICK, None, None)

    # ---- inputs, one after the other

    def put(self, kind: int, peer: Any, what: Any) -> None:
        if self.process is None:
            return
        self._inbox.append((kind, peer, what))
        self._drain()

    def pause(self) -> None:
        if self.process is not None:
            self.paused = True

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            if self._inbox:
                self._sometimes["input waited for a paused process"] += 1
            self._drain()

    def _free(self, life: int) -> None:
        if life == self.started_count:
            self._busy = False
            self._drain()

    def _drain(self) -> None:
        while self._inbox and not (self.paused or self._busy or self._performing):
            self._handle(*self._inbox.popleft())

    def _handle(self, kind: int, peer: Any, what: Any) -> None:
        process = self.process
        assert process is not None
        now = self.clock()
        if kind == FRAME:
            assert peer in self._out, f"{self.pid}: a frame of {peer} without a connection"
            process.received(now, peer, what)
        elif kind == TICK:
            deadline = process.next_deadline()
            if deadline <= now + ROUNDING:
                self._clock_last = now = max(now, deadline)
                process.tick(now)
        elif kind == CONNECT:
            held = self._out.get(peer)
            if held is not None and held[1] >= what[0].wire.first:  # as in the runtime, the peer was not lost
                self._sometimes["one connection in the place of another"] += 1
            elif held is not None:
                process.disconnected(now, peer)
            self._out[peer] = what
            process.connected(now, peer)
        elif kind == DISCONNECT:
            held = self._out.get(peer)
            if held is not None and held[1] == what:
                del self._out[peer]
                process.disconnected(now, peer)
        elif kind == SUBMIT:
            ticket = process.submit(now, what)
            self.pending[ticket] = what
            if self.clients is not None:
                self.clients.accepted(self, what, ticket)
        elif kind == REQUEST:
            self.requested[cast("Process", process).request(now, what)] = what
        elif kind == QUERY:
            body, seen = what
            ticket = cast("Process", process).query(now, body, seen)
            self.requested[ticket] = body
            if self.clients is not None:
                self.clients.accepted(self, body, ticket)
        elif kind == WITHDRAW:
            if cast("Process", process).withdraw_query(now, what):
                del self.requested[what]
        elif kind == LOAD:
            age_s, load = what
            cast("Process", process).load_reported(now, peer, age_s, load.waiting, load.service_us)
        elif kind == LEAVE:
            process.leave(now)
        elif kind == WRITTEN:
            self._writing, self._writable = False, what
        if self.process is process:  # no fault has struck when a client was told
            self._perform(process)

    # ---- interface of the network

    @property
    def answers(self) -> bool:
        return self.process is not None and not self.paused

    def wants(self, name: str) -> bool:
        return self.process is not None and name in self.known

    def learn(self, name: str) -> None:
        """Learn of another node, and dial it."""
        if name != self.name and name not in self.known:
            self.known.add(name)
            self._network.dial(self.name, name)

    def connect(self, peer: ProcessId, channel: OneWayChannel, life: int) -> None:
        self.put(CONNECT, peer, (channel, life))

    def disconnect(self, peer: ProcessId, life: int) -> None:
        self.put(DISCONNECT, peer, life)

    def frame(self, sender: ProcessId, frame: Frame) -> None:
        self.put(FRAME, sender, frame)

    @property
    def connections(self) -> list[ProcessId]:
        return sorted(self._out)

    # ---- effects, one after the other

    def _note(self, action: Action) -> None:
        if isinstance(action, SEEN):
            self._watch.step(self.pid, action)
        else:
            waiting = len(self.process.context.outbox) if self.process is not None else 0
            self._notes.append((self._done + len(self._effects) + waiting, action))

    def _perform(self, process: SimulatedProcess) -> None:
        self._performing = True
        try:
            self._perform_all(process)
        finally:
            self._performing = False

    def _perform_all(self, process: SimulatedProcess) -> None:
        self._effects.extend(process.take())
        wrote = False
        while not self._writing:
            written = self._perform_until_write(process)
            if self.process is not process:
                return
            if written:
                wrote = True
                process.performed(self.clock(), self._done)
                self._effects.extend(process.take())
            elif self._effects:
                self._writing = True
                self._events.after(self.write_time, self._written, self.started_count, len(self._effects))
            else:
                self._watch.handled(self.pid)
                break
        self._arm(process)
        cost = self.input_cost + (self.write_cost if wrote else 0.0)
        if cost:
            self._busy = True
            self._events.after(cost, self._free, self.started_count)

    def _written(self, life: int, count: int) -> None:
        if life == self.started_count:
            self.put(WRITTEN, None, count)

    def _perform_until_write(self, process: SimulatedProcess) -> bool:
        """Perform effects up to the first that waits for a write. Returns whether anything was written."""
        effects = self._effects
        written = False
        while self._publish(process) and effects:
            effect = effects[0]
            kind = type(effect)
            if kind is Persist and self.write_time and not self._writable:
                break
            if self.crash_after >= 0 and self._dies_before(effect):
                break
            effects.popleft()
            self._done += 1
            self._writable = max(0, self._writable - 1)
            if kind is Send:
                self._send(effect)
            elif kind is Persist:
                self.disk.write(effect.record)  # type: ignore[attr-defined]
                written = True
            else:
                self._perform_rare(effect)
        return written

    def _publish(self, process: SimulatedProcess) -> bool:
        """Publish the actions before the next effect. False: one of them triggered a crash of this process."""
        notes = self._notes
        while notes and notes[0][0] <= self._done:
            self._watch.step(self.pid, notes.popleft()[1])
            if self.process is not process:
                return False
        return True

    def _dies_before(self, effect: Effect) -> bool:
        """Whether the planned crash happens now, before this effect."""
        if self.crash_after > 0:
            self.crash_after -= 1
            return False
        self._sometimes["crash between two effects"] += 1
        if isinstance(effect, Persist):
            self._sometimes["torn last write"] += 1
        self.crash(silent=self._chance.hits(self.silent_share))
        return True

    def _send(self, effect: Any) -> None:
        self._watch.sent(self.pid, effect.to, effect.frame)
        out = self._out
        for peer in effect.to:
            held = out.get(peer)
            if held is not None:
                self._network.carry(held[0], held[1], effect.frame)

    def _ended(self, end: Delivered) -> None:
        if self.pending.pop(end.ticket, None) is None:
            raise InvalidEffect(f"{self.pid}: ticket {end.ticket} ends, but was not open: {end}")
        if end.delivered:
            self.delivered_count += 1
        else:
            self.refused_count += 1
        if self.clients is not None:
            self.clients.ended(self, end)

    def _perform_rare(self, effect: Effect) -> None:
        if isinstance(effect, DeliveredRun):
            for end in effect.ends():
                self._ended(end)
                if self.process is None:  # a fault has struck when the client was told
                    return
        elif isinstance(effect, Delivered):
            self._ended(effect)
        elif isinstance(effect, InterimAnswered | QueryAnswered):
            if self.requested.pop(effect.ticket, None) is None:
                raise InvalidEffect(f"{self.pid}: {effect} without an open request")
            if self.clients is not None and isinstance(effect, QueryAnswered):
                self.clients.ended(self, effect)
        elif isinstance(effect, InterimRefreshed):
            pass
        elif isinstance(effect, LoadChanged):
            self._watch.load_changed(self.pid, effect)
        elif isinstance(effect, PrimaryChanged):
            self.primary = effect.view
        elif isinstance(effect, KnownPeers):
            for peer in effect.peers:
                self.learn(peer.name)
        else:
            raise InvalidEffect(f"{self.pid}: {effect}")
