"""Simulator of the multicast transport: lossy datagrams, an abstract total order, crashes, partitions, slow members.

The total order is abstract: one log, appended to by members of the primary side and delivered to each of them in order,
late. Everything follows from one seed. After the fault phase all faults end, every process sends once more, and the run
must come to rest (`AtomicBroadcastSpec.at_rest`).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from cluster.bulk.effects import (
    Deliver,
    Discard,
    FellBehind,
    Joined,
    Multicast,
    Outcome,
    Propose,
    Resolved,
    SendState,
    SendTo,
)
from cluster.bulk.flow_control import FlowControl
from cluster.bulk.master import Grant, Leave, Master, PrimaryView
from cluster.bulk.packets import Data, Status
from cluster.bulk.process import BulkProcess
from cluster.bulk.spec import AtomicBroadcastSpec
from cluster.names import ProcessId
from cluster.sim.event_queue import EventQueue, TooManyEvents
from cluster.sim.run import RunFailure, RunResult
from cluster.sim.seeded_random import SeededRandom
from cluster.specs.spec import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.bulk.effects import Effect
    from cluster.bulk.master import Entry
    from cluster.bulk.packets import AnyPacket

SESSION = 7
FAULTS_S = 4.0  # length of the fault phase
REST_S = 60.0  # virtual seconds within which a run comes to rest after it
DETECT_S = 0.15  # until a change of connectivity becomes a view


class MemorySource:
    """A message of packets in memory."""

    __slots__ = ("packets",)

    def __init__(self, packets: list[bytes]) -> None:
        self.packets = packets

    @property
    def available(self) -> int:
        return len(self.packets)

    @property
    def is_ended(self) -> bool:
        return True

    def read(self, packet: int) -> bytes:
        return self.packets[packet]


class MemorySpool:
    """Packets of received messages, in memory."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: dict[int, dict[int, bytes]] = {}

    def write(self, number: int, packet: int, payload: bytes) -> None:
        self.messages.setdefault(number, {})[packet] = payload

    def read(self, number: int, packet: int) -> bytes:
        return self.messages[number][packet]

    def content(self, number: int) -> bytes:
        packets = self.messages.get(number, {})
        return b"".join(packets[at] for at in sorted(packets))


class SimNode:
    """A host and the process that runs on it, if any."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.incarnation = 0
        self.process: BulkProcess | None = None
        self.spool = MemorySpool()
        self.position = 0  # entries of the log that its replica has applied
        self.sources: dict[int, bytes] = {}  # content of the messages it sent, by request
        self.outcomes: dict[int, Outcome] = {}
        self.marked: dict[int, Status] = {}
        self.delivered: list[int] = []
        self.in_primary = False
        self.wake_at = inf
        self.slow_s = 0.0  # additional delay of every packet to this node

    @property
    def id(self) -> ProcessId:
        return ProcessId(self.name, self.incarnation)


class BulkWorld:
    """Nodes, network, order and clock of one run."""

    def __init__(self, seed: int, names: Iterable[str], *, loss: float = 0.0, with_state: bool = False) -> None:
        self.chance = SeededRandom(seed)
        self.events = EventQueue(handled_max=400_000)
        self.nodes = {name: SimNode(name) for name in names}
        self.loss = loss
        self.duplicates = loss / 4
        self.delay_s = 0.002
        self.with_state = with_state
        self.sides: list[set[str]] = [set(self.nodes)]
        self.primary: tuple[ProcessId, ...] = ()
        self.log: list[Entry] = []
        self.truth = Master(SESSION)
        self.spec = AtomicBroadcastSpec()
        self.sometimes: dict[str, int] = {}
        self.handled = 0  # packets that reached a process
        self.on_packet: Callable[[int], None] = lambda _count: None
        for node in self.nodes.values():
            self._boot(node)
        self._agree_on_view()

    @property
    def now(self) -> float:
        return self.events.now

    def count(self, what: str) -> None:
        self.sometimes[what] = self.sometimes.get(what, 0) + 1

    # ---- faults

    def crash(self, name: str) -> None:
        node = self.nodes[name]
        if node.process is not None:
            if node.process.coordinator.is_active:
                self.count("the coordinator crashed")
            if node.process.producer.current is not None:
                self.count("a producer crashed with a message")
            node.process = None
            node.in_primary = False
            self.events.after(DETECT_S, self._agree_on_view)

    def restart(self, name: str) -> None:
        node = self.nodes[name]
        if node.process is None:
            node.incarnation += 1
            self._boot(node)
            self.events.after(DETECT_S, self._agree_on_view)

    def split(self, sides: list[set[str]]) -> None:
        self.sides = sides
        self.events.after(DETECT_S, self._agree_on_view)

    def heal(self) -> None:
        self.split([set(self.nodes)])

    def _boot(self, node: SimNode) -> None:
        node.spool = MemorySpool()
        node.position = 0
        node.marked, node.delivered, node.sources, node.outcomes = {}, [], {}, {}
        flow = FlowControl(window=8, window_max=32, commit_max=256, retention_max=12)
        chance = self.chance.fork(f"{node.id}")
        node.process = BulkProcess(node.id, Master(SESSION), flow, node.spool, chance, with_state=self.with_state)
        node.in_primary = False

    # ---- the abstract total order

    def _side(self, name: str) -> set[str]:
        return next(side for side in self.sides if name in side)

    def _agree_on_view(self) -> None:
        """The side with a majority of all nodes gets a primary view of its running processes."""
        majority = len(self.nodes) // 2 + 1
        up = [{name for name in side if self.nodes[name].process is not None} for side in self.sides]
        primary = next((side for side in up if len(side) >= majority), set())
        for node in self.nodes.values():
            if node.process is not None and node.in_primary and node.name not in primary:
                node.in_primary = False
                self._do(node, lambda p: p.primary_changed(self.now, is_in=False))
        members = tuple(sorted(self.nodes[name].id for name in primary))
        if members != self.primary and members:
            self._append(PrimaryView(members))
            for name in sorted(primary):
                self.events.after(self.chance.between(0.001, 0.02), self._enter, name, self.nodes[name].incarnation)
        self.primary = members

    def _enter(self, name: str, incarnation: int) -> None:
        """The node has caught up with the log and enters the primary view."""
        node = self.nodes[name]
        if node.process is None or node.incarnation != incarnation or node.id not in self.primary:
            return
        self._catch_up(node, len(self.log))
        if not node.in_primary:
            node.in_primary = True
            self._do(node, lambda p: p.primary_changed(self.now, is_in=True))

    def _append(self, entry: Entry) -> None:
        self.log.append(entry)
        self.truth.apply(entry)
        self.spec.ordered(self.truth)
        if len(self.truth.pending()) > 1:
            self.count("two tokens at a time")
        for node in self.nodes.values():
            if node.process is not None and node.in_primary:
                self.events.after(
                    self.chance.between(0.0005, 0.008), self._deliver_entries, node, node.incarnation, len(self.log)
                )

    def _deliver_entries(self, node: SimNode, incarnation: int, end: int) -> None:
        if node.process is not None and node.incarnation == incarnation and node.in_primary:
            self._catch_up(node, end)

    def _catch_up(self, node: SimNode, end: int) -> None:
        while node.position < end and node.process is not None:
            entry = self.log[node.position]
            node.position += 1
            self._do(node, lambda p, entry=entry: p.apply(self.now, entry))  # type: ignore[misc]

    def _propose(self, node: SimNode, entry: Entry) -> None:
        if node.in_primary:
            self.events.after(self.chance.between(0.0005, 0.006), self._order, node, node.incarnation, entry)

    def _order(self, node: SimNode, incarnation: int, entry: Entry) -> None:
        if node.in_primary and node.incarnation == incarnation:
            self._append(entry)

    # ---- processes

    def send(self, name: str, packets: int) -> None:
        node = self.nodes[name]
        process = node.process
        if process is not None:
            tag = f"{node.id}/{len(node.sources) + 1}/".encode()
            source = MemorySource([tag + b"%d;" % at for at in range(packets)])
            request = process.send(self.now, source)
            node.sources[request] = b"".join(source.packets)
            self._do(node, lambda p: p.tick(self.now))

    def _do(self, node: SimNode, step: Callable[[BulkProcess], None]) -> None:
        process = node.process
        if process is None:
            return
        step(process)
        self._see(node, process)
        for effect in process.take():
            self._perform(node, process, effect)
        deadline = process.next_deadline()
        if deadline < node.wake_at or node.wake_at <= self.now:
            node.wake_at = max(deadline, self.now + 1e-6)
            if node.wake_at < inf:
                self.events.at(node.wake_at, self._wake, node, node.wake_at)

    def _wake(self, node: SimNode, at: float) -> None:
        if node.wake_at == at:
            node.wake_at = inf
            self._do(node, lambda p: p.tick(self.now))

    def _see(self, node: SimNode, process: BulkProcess) -> None:
        """Tells the specification which statuses the member has marked."""
        for number, slot in process.context.knowledge.slots.items():
            if slot.status is not Status.PENDING and node.marked.get(number) is not slot.status:
                node.marked[number] = slot.status
                self.spec.learn(node.id, number, slot.status)

    def _perform(self, node: SimNode, process: BulkProcess, effect: Effect) -> None:
        match effect:
            case SendTo(to, packet):
                self._transmit(node, to.name, packet)
            case Multicast(packet):
                if isinstance(packet, Data):
                    self._check_token(node, process, packet)
                for other in self.nodes:
                    self._transmit(node, other, packet)
            case Propose(entry):
                self._propose(node, entry)
            case Joined(first):
                self.spec.join(node.id, first)
                node.marked = {}
                self._see(node, process)
                if first > 1:
                    self.count("a process joined later")
            case FellBehind():
                self.count("a member fell behind")
            case Deliver(number, _):
                self.spec.deliver(node.id, number, node.spool.content(number))
                node.delivered.append(number)
            case Discard(number):
                node.spool.messages.pop(number, None)
            case Resolved(request, outcome):
                node.outcomes[request] = outcome
                self.count(f"a message was {outcome.value}")
            case SendState(to, first):
                self.count("the state was given to a process")
                self.events.after(self.chance.between(0.01, 0.1), self._give_state, to, first, list(node.delivered))

    def _give_state(self, to: ProcessId, first: int, _delivered: list[int]) -> None:
        node = self.nodes[to.name]
        if node.id == to:
            self._do(node, lambda p: p.state_received(self.now, first))

    def _check_token(self, node: SimNode, process: BulkProcess, packet: Data) -> None:
        if packet.number not in self.spec.sent:
            message = process.producer.retained[packet.number]
            self.spec.send(node.id, packet.number, node.sources[message.request])

    # ---- datagrams

    def _transmit(self, sender: SimNode, to: str, packet: AnyPacket) -> None:
        if to != sender.name and self.chance.hits(self.loss):
            self.count("a packet was lost")
            return
        copies = 2 if self.chance.hits(self.duplicates) else 1
        for _ in range(copies):
            delay = 1e-5 if to == sender.name else self.delay_s * (0.5 + self.chance.exponential(0.7))
            self.events.after(delay + self.nodes[to].slow_s, self._arrive, sender.id, to, packet)

    def _arrive(self, sender: ProcessId, to: str, packet: AnyPacket) -> None:
        node = self.nodes[to]
        if node.process is not None and to in self._side(sender.name):
            self.handled += 1
            self._do(node, lambda p: p.received(self.now, sender, packet))
            self.on_packet(self.handled)

    # ---- the end of a run

    def is_at_rest(self) -> bool:
        processes = [node.process for node in self.nodes.values()]
        return not self.truth.pending() and all(
            process is not None
            and process.consumer.is_member
            and process.consumer.next_out == self.truth.next
            and process.producer.current is None
            and not process.producer.waiting
            for process in processes
        )

    def come_to_rest(self) -> None:
        """All faults end; every process sends once more; then everything must be delivered everywhere."""
        self.loss = min(self.loss, 0.05)
        for name, node in self.nodes.items():
            node.slow_s = 0.0
            self.restart(name)
        self.heal()
        self._run_until(self.now + REST_S, self._all_members)
        last = {name: len(node.sources) + 1 for name, node in self.nodes.items()}
        for name in self.nodes:
            self.send(name, 3)
        self._run_until(self.now + REST_S, self.is_at_rest)
        for name, node in self.nodes.items():
            self.spec.at_rest(node.id)
            unresolved = [request for request in node.sources if request not in node.outcomes]
            self.spec.require(not unresolved, "every message has an outcome", node.id, unresolved)
            self.spec.require(
                node.outcomes[last[name]] is Outcome.ACCEPTED, "AB-2: a connected process makes progress", node.id
            )

    def _all_members(self) -> bool:
        return len(self.primary) == len(self.nodes) and all(
            node.process is not None and node.process.consumer.is_member and node.in_primary
            for node in self.nodes.values()
        )

    def _run_until(self, end: float, reached: Callable[[], bool]) -> None:
        while not reached():
            if self.now >= end:
                waiting = [
                    (node.name, node.process.consumer.is_member, node.process.consumer.next_out, self.truth.next)
                    for node in self.nodes.values() if node.process is not None
                ]
                raise Violation("AB", "AB-2: the run comes to rest", (waiting, self.truth.pending()))
            self.events.run_until(self.now + 0.05)


def run_seed(seed: int) -> RunResult:
    """One run with the faults that the seed gives."""
    chance = SeededRandom(seed).fork("plan")
    names = "abcde"[: 3 + chance.below(3)]
    world = BulkWorld(seed, names, loss=chance.choice((0.0, 0.02, 0.1, 0.2)), with_state=chance.hits(0.4))
    failure = None
    try:
        _inject(world, chance, names)
        world.events.run_until(FAULTS_S)
        world.come_to_rest()
    except Violation as error:
        failure = RunFailure(error.spec, world.handled, str(error))
    except TooManyEvents as error:
        failure = RunFailure("liveness", world.handled, str(error))
    except Exception as error:  # noqa: BLE001
        failure = RunFailure(type(error).__name__, world.handled, repr(error))
    return RunResult(seed, failure, world.handled, world.events.handled, world.now, world.sometimes, {})


def _inject(world: BulkWorld, chance: SeededRandom, names: str) -> None:
    """Schedules messages and faults."""
    for _ in range(3 + chance.below(10)):
        world.events.at(chance.between(0.05, FAULTS_S), world.send, chance.choice(names), 1 + chance.below(40))
    for _ in range(chance.below(6)):
        at, name = chance.between(0.2, FAULTS_S), chance.choice(names)
        kind = chance.below(4)
        if kind == 0:
            world.events.at(at, world.crash, name)
            world.events.at(at + chance.between(0.05, 2), world.restart, name)
        elif kind == 1:
            away = set(chance.sample(names, 1 + chance.below(len(names) - 1)))
            world.events.at(at, world.split, [away, set(names) - away])
            world.events.at(at + chance.between(0.05, 2), world.heal)
        elif kind == 2:
            world.events.at(at, setattr, world.nodes[name], "slow_s", chance.between(0.02, 0.4))
            world.events.at(at + chance.between(0.1, 1.5), setattr, world.nodes[name], "slow_s", 0.0)
        else:
            burst = min(0.9, world.loss + 0.5)
            world.events.at(at, setattr, world, "loss", burst)
            world.events.at(at + chance.between(0.05, 0.6), setattr, world, "loss", world.loss)
