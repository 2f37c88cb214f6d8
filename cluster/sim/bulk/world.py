"""Nodes, network, total order and clock of one simulated run of the multicast transport.

Datagrams are lost, duplicated and reordered. The total order is abstract: one log, appended to by members of the
primary side and delivered to each of them in order, late. Everything follows from one seed.
Above: scenarios.  Below: memory.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from cluster.bulk.consumer import BEHIND_MAX, KEPT
from cluster.bulk.effects import (
    DeliverMessage,
    Discard,
    Joined,
    MembersChanged,
    MessageResolved,
    MissedMessages,
    Multicast,
    Outcome,
    Propose,
    ReceivedByAll,
    SendState,
    SendTo,
)
from cluster.bulk.flow_control import FlowControl
from cluster.bulk.master import Accept, ChangeView, Grant, Master
from cluster.bulk.packets import Complete, DataPacket, NakDeny, Status
from cluster.bulk.process import BulkProcess
from cluster.names import ProcessId
from cluster.sim.bulk.memory import MemorySource, MemorySpool
from cluster.sim.event_queue import EventQueue
from cluster.sim.seeded_random import SeededRandom
from cluster.specs.atomic_multicast import AtomicMulticastSpec
from cluster.specs.spec import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.bulk.effects import Effect
    from cluster.bulk.master import Entry
    from cluster.bulk.packets import AnyPacket

SESSION = 7
REST_S = 60.0  # virtual seconds within which a run comes to rest after the faults
LATE = 0.03  # of the proposals wait in the order's queue, perhaps until after a change of the view
LATE_S = 0.5  # for so long, at most
DETECT_S = 0.15  # until a change of connectivity becomes a view
RATE_MIN = 500.0  # packets per second, of senders that do not wait for slow consumers
STARTS = 1000  # requests of one process, at most
EVENTS_MAX = 400_000


class BulkNode:
    """A host and the process that runs on it, if any."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.incarnation = 0
        self.starts = 0
        self.process: BulkProcess | None = None
        self.in_primary = False
        self.slow_s = 0.0  # additional delay of every packet to this node
        self.is_starved = False  # data packets to this node are lost
        self.is_deaf = False  # all packets to this node are lost, and no view shows it
        self.wake_at = inf
        self.sends_left = inf  # packets to send until it crashes
        self.inputs_left = inf  # packets and ordered entries until it crashes: it handles the last, and says nothing
        self.forget()

    def forget(self) -> None:
        """A new process begins without anything."""
        self.spool = MemorySpool()
        self.position = 0  # entries of the log that its replica has applied
        self.sources: dict[int, bytes] = {}  # content of the messages it sent, by request
        self.outcomes: dict[int, Outcome] = {}
        self.reported: set[int] = set()  # messages that it told the coordinator it has
        self.marked: dict[int, Status] = {}
        self.state: list[int] = []  # of the application: the messages that it holds
        self.given: dict[int, list[int]] = {}  # states that it was given, by the message that follows

    @property
    def id(self) -> ProcessId:
        return ProcessId(self.name, self.incarnation)


class BulkWorld:
    """One run."""

    def __init__(self, seed: int, names: Iterable[str], *, loss: float = 0.0, with_state: bool = False) -> None:
        self.chance = SeededRandom(seed)
        self.events = EventQueue(handled_max=EVENTS_MAX)
        self.nodes = {name: BulkNode(name) for name in names}
        self.loss = loss
        self.duplicates = loss / 4
        self.delay_s = 0.002
        self.with_state = with_state
        self.room = self.chance.choice((4, 32, 2048))  # packets that a process has room for
        self._rates = self.chance.fork("rates")
        self._late = self.chance.fork("late entries")
        self.sides: list[set[str]] = [set(self.nodes)]
        self.primary: tuple[ProcessId, ...] = ()
        self.log: list[Entry] = []
        self.fallen: dict[ProcessId, MemorySpool] = {}  # what processes had that crashed in the present primary view
        self.truth = Master(SESSION)
        self.spec = AtomicMulticastSpec()
        self.sometimes: dict[str, int] = {}
        self.handled = 0  # packets that reached a process
        self.ambushes = 0  # producers that still have to crash when they get a token
        self.leaver = ""  # crashes when a message of it is accepted, and stays away until the faults end
        self.say: Callable[[str], None] = lambda _text: None
        for node in self.nodes.values():
            self._boot(node)
        self._agree_on_view()

    @property
    def now(self) -> float:
        return self.events.now

    def count(self, what: str) -> None:
        self.sometimes[what] = self.sometimes.get(what, 0) + 1

    def _tell(self, node: BulkNode, text: object) -> None:
        self.say(f"{self.now:8.3f} {node.id}: {text}")

    # ---- faults

    def crash(self, name: str) -> None:
        node = self.nodes[name]
        if node.process is not None:
            self._tell(node, "crashes")
            if node.process.coordinator.is_active:
                self.count("the coordinator crashed")
            if node.process.producer.current is not None:
                self.count("a producer crashed with a message")
            self.fallen.setdefault(node.id, node.spool)
            node.process = None
            node.in_primary = False
            node.sends_left = node.inputs_left = inf
            self.events.after(DETECT_S, self._agree_on_view)

    def restart(self, name: str) -> None:
        node = self.nodes[name]
        if node.process is None:
            node.incarnation += self.chance.below(2)  # a process that keeps its disk keeps its incarnation
            self.count("a process restarted")
            self._boot(node)
            self._tell(node, "starts")
            self.primary = ()  # also a view of the same members is a new one
            self.events.after(DETECT_S, self._agree_on_view)

    def split(self, sides: list[set[str]]) -> None:
        self.say(f"{self.now:8.3f} network: {' | '.join(' '.join(sorted(side)) for side in sides)}")
        if len(sides) > 1:
            self.count("the network was partitioned")
        self.sides = sides
        self.events.after(DETECT_S, self._agree_on_view)

    def heal(self) -> None:
        self.split([set(self.nodes)])

    def _boot(self, node: BulkNode) -> None:
        node.forget()
        node.starts += 1
        flow = FlowControl(window=8, window_max=32, commit_max=256, retention_max=12)
        chance = self.chance.fork(f"{node.name} {node.starts}")
        start = STARTS * node.starts
        node.process = BulkProcess(
            node.id, Master(SESSION), flow, node.spool, chance, start=start, with_state=self.with_state
        )
        node.process.context.room = self.room
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
            self._append(ChangeView(members))
            for name in sorted(primary):
                self.events.after(self.chance.between(0.001, 0.02), self._enter, name, self.nodes[name].starts)
        self.primary = members

    def _enter(self, name: str, starts: int) -> None:
        """The node has caught up with the log and enters the primary view."""
        node = self.nodes[name]
        if node.process is None or node.starts != starts or node.id not in self.primary:
            return
        self._catch_up(node, len(self.log))
        if not node.in_primary:
            node.in_primary = True
            self._do(node, lambda p: p.primary_changed(self.now, is_in=True))

    def _append(self, entry: Entry) -> None:
        self.say(f"{self.now:8.3f} order: {entry}")
        before = self.truth.next, self.truth.t_cur
        pending = [number for number, _ in self.truth.pending()]
        if type(entry) is ChangeView:
            self.fallen.clear()
        self.log.append(entry)
        self.truth.apply(entry)
        self.spec.ordered(self.truth)
        if type(entry) is Accept and entry.number in pending and entry.number in self.spec.sent:
            self._check_copies(entry.number)
        if len(self.truth.pending()) > 1:
            self.count("two tokens at a time")
        if self.truth.t_cur != before[1]:
            self.count("t_cur was raised" if self.truth.t_cur > before[1] else "t_cur was lowered")
        if self.truth.next > before[0] and self.truth.recent[0].status is not Status.PENDING:
            self.count(f"a process {self.truth.recent[0].status.name.lower()}")
        for node in self.nodes.values():
            if node.process is not None and node.in_primary:
                self.events.after(
                    self.chance.between(0.0005, 0.008), self._deliver_entries, node, node.starts, len(self.log)
                )
        if self.ambushes and type(entry) is Grant and entry.producer != self.truth.coordinator:
            self.ambushes -= 1
            self.count("a producer crashed when it got a token")
            self.events.after(0.0, self._ambush, entry.producer.name)

    def _check_copies(self, number: int) -> None:
        """A process that crashed in this view counts: such crashes, of a minority, are what the message survives."""
        content = self.spec.sent[number][1]
        voters = self.truth.voters(number)
        spools = {node.id: node.spool for node in self.nodes.values()} | self.fallen
        having = [member for member in voters if member in spools and spools[member].content(number) == content]
        self.spec.accept(number, len(having), len(voters))

    def _ambush(self, name: str) -> None:
        self.crash(name)
        self.events.after(0.1, self.restart, name)
        self.events.after(0.5, self.send, name, 2)

    def _deliver_entries(self, node: BulkNode, starts: int, end: int) -> None:
        if node.process is not None and node.starts == starts and node.in_primary:
            self._catch_up(node, end)

    def _catch_up(self, node: BulkNode, end: int) -> None:
        while node.position < end and node.process is not None:
            entry = self.log[node.position]
            node.position += 1
            self._input(node, lambda p, entry=entry: p.apply(self.now, entry))  # type: ignore[misc]

    def _propose(self, node: BulkNode, entry: Entry) -> None:
        if node.in_primary:
            delay_s = self.chance.between(0.0005, 0.006)
            if self._late.hits(LATE):
                self.count("an entry was ordered late")
                delay_s += self._late.between(0.0, LATE_S)
            self.events.after(delay_s, self._order, node, node.starts, entry)

    def _order(self, node: BulkNode, starts: int, entry: Entry) -> None:
        if node.in_primary and node.starts == starts:
            self._append(entry)

    # ---- processes

    def send(self, name: str, packets: int, rate_min: float | None = None) -> None:
        """`rate_min`: whether a slow consumer falls behind or, with 0, slows all; by chance if not given."""
        node = self.nodes[name]
        process = node.process
        if process is not None:
            tag = f"{node.name}/{STARTS * node.starts + len(node.sources) + 1}/".encode()
            source = MemorySource([tag + b"%d;" % at for at in range(packets)])
            rate_min = self._rates.choice((0.0, RATE_MIN)) if rate_min is None else rate_min
            request = process.send(self.now, source, rate_min)
            node.sources[request] = b"".join(source.packets)
            self._do(node, lambda p: p.tick(self.now))

    def _input(self, node: BulkNode, step: Callable[[BulkProcess], None]) -> None:
        """A packet or an entry of the order arrives."""
        node.inputs_left -= 1
        if node.inputs_left >= 0:
            self._do(node, step)
        elif node.process is not None:
            step(node.process)
            self.crash(node.name)

    def _do(self, node: BulkNode, step: Callable[[BulkProcess], None]) -> None:
        process = node.process
        if process is None:
            return
        step(process)
        self._see(node, process)
        self.spec.bounded(node.id, len(process.consumer.incoming), BEHIND_MAX + 1)
        for effect in process.take():
            if node.process is not process:
                return  # it crashed between two effects
            self._perform(node, process, effect)
        deadline = process.next_deadline()
        if deadline < node.wake_at or node.wake_at <= self.now:
            node.wake_at = max(deadline, self.now + 1e-6)
            if node.wake_at < inf:
                self.events.at(node.wake_at, self._wake, node, node.wake_at)

    def _wake(self, node: BulkNode, at: float) -> None:
        if node.wake_at == at:
            node.wake_at = inf
            self._do(node, lambda p: p.tick(self.now))

    def _see(self, node: BulkNode, process: BulkProcess) -> None:
        """Tells the specification which statuses the member has marked."""
        for number, slot in process.context.statuses.slots.items():
            if node.marked.get(number, Status.PENDING) is not slot.status:
                node.marked[number] = slot.status
                self.spec.learn(node.id, number, slot.status)

    def _perform(self, node: BulkNode, process: BulkProcess, effect: Effect) -> None:
        match effect:
            case SendTo(to, packet):
                if type(packet) is NakDeny:
                    self.count("a NAK was denied")
                elif type(packet) is Complete:
                    node.reported.add(packet.number)
                self._transmit(node, to.name, packet)
            case Multicast(packet):
                if isinstance(packet, DataPacket):
                    self._check_token(node, process, packet)
                for other in self.nodes:
                    self._transmit(node, other, packet)
            case Propose(entry):
                self._propose(node, entry)
            case Discard(number):
                if number in node.reported:
                    is_recent = process.consumer.next_out - number < KEPT
                    self.spec.discard(node.id, number, is_recent=is_recent)
                node.spool.messages.pop(number, None)
            case SendState(to, first):
                self.events.after(self.chance.between(0.01, 0.1), self._give_state, to, first, list(node.state))
            case _:
                self._tell(node, effect)
                self._judge(node, process, effect)

    def _judge(self, node: BulkNode, process: BulkProcess, effect: Effect) -> None:
        """Passes the effects for the application to the specification."""
        match effect:
            case Joined(first, has_state):
                self.spec.join(node.id, first)
                node.marked = {}
                self._see(node, process)
                node.state = node.given.pop(first) if has_state else []
            case MembersChanged(number, members):
                self.spec.change_members(node.id, number, members, node.state if self.with_state else None)
            case MissedMessages():
                self.count("a member fell behind")
            case DeliverMessage(number):
                self.spec.deliver(node.id, number, node.spool.content(number))
                node.state.append(number)
            case ReceivedByAll(request):
                self._check_all_have(node, process, request)
            case MessageResolved(request, number, outcome):
                node.outcomes[request] = outcome
                self.count(f"a message was {outcome.value}")
                if node.name == self.leaver and outcome is Outcome.ACCEPTED:
                    self.leaver = ""
                    self.count("a producer left when its message was accepted")
                    self.events.after(0.0, self.crash, node.name)
                if outcome is not Outcome.UNKNOWN:
                    self.spec.resolved(node.id, number, Status[outcome.name])
            case _:
                pass

    def _check_all_have(self, node: BulkNode, process: BulkProcess, request: int) -> None:
        message = process.producer.find(request)
        if message is None:
            return
        self.count("all members had a message")
        number = message.number
        receivers = [p for p, one in process.context.master.joined.items() if one.is_ready and one.first < number]
        nodes = [self.nodes[p.name] for p in receivers if self.nodes[p.name].id == p != node.id]
        members = [one for one in nodes if one.process is not None and one.process.consumer.is_member]
        without = [one.id for one in members if one.process is not None and one.process.consumer.next_out <= number]
        self.spec.received_by_all(node.id, number, without)

    def _give_state(self, to: ProcessId, first: int, state: list[int]) -> None:
        node = self.nodes[to.name]
        if node.id == to and node.process is not None:
            self.count("a process was given the state")
            node.given[first] = state
            self._do(node, lambda p: p.state_received(self.now, first))

    def _check_token(self, node: BulkNode, process: BulkProcess, packet: DataPacket) -> None:
        if packet.number not in self.spec.sent:
            message = process.producer.retained[packet.number]
            self.spec.send(node.id, packet.number, node.sources[message.request])

    # ---- datagrams

    def _transmit(self, sender: BulkNode, to: str, packet: AnyPacket) -> None:
        if sender.process is None:
            return
        sender.sends_left -= 1
        if sender.sends_left < 0:
            self.crash(sender.name)
            return
        node = self.nodes[to]
        is_starved = node.is_starved and type(packet) is DataPacket
        if to != sender.name and (node.is_deaf or is_starved or self.chance.hits(self.loss)):
            self.count("a packet was lost")
            return
        copies = 1
        if self.chance.hits(self.duplicates):
            self.count("a packet was duplicated")
            copies = 2
        for _ in range(copies):
            delay = 1e-5 if to == sender.name else self.delay_s * (0.5 + self.chance.exponential(0.7))
            self.events.after(delay + node.slow_s, self._arrive, sender.id, to, packet)

    def _arrive(self, sender: ProcessId, to: str, packet: AnyPacket) -> None:
        node = self.nodes[to]
        if node.process is not None and to in self._side(sender.name):
            self.handled += 1
            self._input(node, lambda p: p.received(self.now, sender, packet))

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
        self.ambushes = 0
        self.leaver = ""
        for name, node in self.nodes.items():
            node.slow_s, node.is_deaf, node.is_starved = 0.0, False, False
            node.sends_left = node.inputs_left = inf
            self.restart(name)
        self.heal()
        self._run_until(self.now + REST_S, self._all_members)
        for name in self.nodes:
            self.send(name, 3)
        last = {name: max(node.sources) for name, node in self.nodes.items()}
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
                    for node in self.nodes.values()
                    if node.process is not None
                ]
                raise Violation("AB", "AB-2: the run comes to rest", (waiting, self.truth.pending()))
            self.events.run_until(self.now + 0.05)
