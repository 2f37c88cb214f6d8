"""Simulated world: nodes, network and virtual clock, with a fluent API for scenarios.

Nodes have one-letter names, and one seed drives everything. The scenario methods (`start`, `partition`, `crash`,
`broadcast`, `settle` ...) return the world, so that a scenario reads as a story. Every action passes `step` on its way
to the watchers: specifications, narrator, ambushes.
Below: node, network.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol, cast

from cluster.actions import NAMES
from cluster.settings import DEFAULT, Settings
from cluster.sim.event_queue import EventQueue
from cluster.sim.network import FIXED, Delays, SimNetwork
from cluster.sim.node import LOAD, QUERY, REQUEST, SUBMIT, ProcessFactory, SimNode
from cluster.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.actions import Action
    from cluster.layer import LoadChanged
    from cluster.messages import Frame
    from cluster.names import ProcessId, View
    from cluster.stack import Process

SETTLED_AFTER = 4.0  # seconds without any action after which the world counts as settled
SETTLE_MAX = 120.0
LOAD_DELAY_MAX = 0.02  # of reports between members of the data service
POLL = 0.1  # interval between checks of a condition


class NotReached(Exception):
    """A condition did not become true in time."""


class Watcher(Protocol):
    """Sees every external action, and the joint state after every input that a process handled."""

    def step(self, process: ProcessId, action: Action) -> None: ...
    def after(self, world: World, process: ProcessId) -> None: ...


class FrameListener(Protocol):
    """Also sees every frame as it is sent."""

    def action(self, time: float, process: ProcessId, action: Action) -> None: ...
    def frame(self, time: float, sender: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> None: ...
    def remark(self, time: float, text: str) -> None: ...


class World:
    """The nodes and the network of one run."""

    def __init__(
        self,
        make: ProcessFactory,
        *,
        seed: int = 0,
        settings: Settings = DEFAULT,
        delays: Delays = FIXED,
        watcher: Watcher | None = None,
        listener: FrameListener | None = None,
        coded: bool = False,
    ) -> None:
        self.chance = SeededRandom(seed)
        self.settings = settings
        self.sometimes: Counter[str] = Counter()  # faults that took effect, with counts
        self.events = EventQueue()
        self.network = SimNetwork(self.events, self.chance.fork("network"), delays, self.sometimes, coded=coded)
        self.nodes: dict[str, SimNode] = {}
        self.steps = 0
        self.frames = 0
        self.calm = False  # the fault phase is over
        self.ambushes: list[tuple[str, Callable[[ProcessId], object]]] = []  # (action name, callback)
        self._make = make
        self._coded = coded
        self._watcher = watcher
        self._listener = listener
        self._step_last = 0.0
        self._loads: dict[tuple[ProcessId, str], tuple[float, LoadChanged]] = {}  # on the way, with their times
        self._load_delays = self.chance.fork("load reports")
        self._parts: list[tuple[str, str]] = []  # directions cut by `partition`

    # ---- watchers

    def step(self, process: ProcessId, action: Action) -> None:
        self.steps += 1
        self._step_last = self.events.now
        if self._listener is not None:
            self._listener.action(self.events.now, process, action)
        if self._watcher is not None:
            self._watcher.step(process, action)
        if self.ambushes:
            self._spring(process, NAMES[type(action)])

    def sent(self, process: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> None:
        self.frames += 1
        if self._listener is not None:
            self._listener.frame(self.events.now, process, to, frame)

    def handled(self, process: ProcessId) -> None:
        if self._watcher is not None:
            self._watcher.after(self, process)

    def load_changed(self, process: ProcessId, load: LoadChanged) -> None:
        """Stands for semantically reliable broadcast: the last report arrives, in place of those before it."""
        for name in self.nodes:
            if name != process.name:
                if (process, name) not in self._loads:
                    delay = self._load_delays.between(0.0, LOAD_DELAY_MAX)
                    self.events.after(delay, self._report_load, process, name)
                self._loads[process, name] = self.events.now, load

    def _report_load(self, process: ProcessId, to: str) -> None:
        at, load = self._loads.pop((process, to))
        if process in self.nodes[to].connections:
            self.nodes[to].put(LOAD, process.name, (self.events.now - at, load))

    def remark(self, text: str) -> None:
        if self._listener is not None:
            self._listener.remark(self.events.now, text)

    def _spring(self, process: ProcessId, name: str) -> None:
        sprung = [ambush for ambush in self.ambushes if ambush[0] == name]
        if sprung:
            self.ambushes = [ambush for ambush in self.ambushes if ambush[0] != name]
            for _, set_off in sprung:
                set_off(process)

    # ---- scenario steps

    def add(self, name: str, *, contacts: Iterable[str] = (), founds: bool = False) -> World:
        """Add a node that does not run yet."""
        node = SimNode(
            name, self._make, self.settings, self.events, self.network, self.chance.fork(f"node {name}"), self,
            self.sometimes, contacts=tuple(contacts), founds=founds, coded=self._coded,
        )  # fmt: skip
        self.nodes[name] = node
        self.network.add(node)
        return self

    def start(self, names: str) -> World:
        """Start a group: the first node founds it, the others join; returns when all are in one primary view."""
        first = names[0]
        for name in names:
            self.add(name, contacts=() if name == first else (first,), founds=name == first)
        for name in names:
            self.nodes[name].start()
        return self.run_until(lambda: self.has_primary(names), within=30.0, what=f"a primary view of {names}")

    def join(self, name: str, via: str = "") -> World:
        """Add and start one node, which knows one member."""
        if name not in self.nodes:
            self.add(name, contacts=via or next(iter(self.nodes)))
        self.remark(f"{name} joins")
        self.nodes[name].start()
        return self

    def leave(self, name: str) -> World:
        """The node leaves and is switched off a second later."""
        self.remark(f"{name} leaves")
        self.nodes[name].leave()
        self.events.after(1.0, self._switch_off, name)
        return self

    def _switch_off(self, name: str) -> None:
        """The node is gone for good."""
        node = self.nodes[name]
        node.gone = True
        node.crash(disk_lost=True)

    def crash(self, name: str, *, silent: bool = False) -> World:
        self.remark(f"{name} crashes{' without a word' if silent else ''}")
        self.nodes[name].crash(silent=silent)
        return self

    def crash_after(self, name: str, effects: int) -> World:
        """Crash the node after so many more effects, in the middle of a step."""
        if self.nodes[name].process is not None:
            self.nodes[name].crash_after = effects
        return self

    def restart(self, name: str) -> World:
        self.remark(f"{name} starts from its disk")
        self.nodes[name].start()
        return self

    def lose_disk(self, name: str) -> World:
        """Crash the node and lose its disk. Restarted, it is a new process."""
        self.remark(f"{name} crashes and loses its disk")
        self.nodes[name].crash(disk_lost=True)
        return self

    def partition(self, *groups: str) -> World:
        """Only nodes of the same group can communicate; unnamed nodes form a group of their own."""
        self.heal()
        rest = [name for name in self.nodes if not any(name in group for group in groups)]
        self.remark("partition " + " | ".join([*groups, *(["".join(rest)] if rest else [])]))
        for source, destination in self.network.pairs_between([*groups, rest]):
            self._parts.append((source, destination))
            self.network.cut(source, destination)
        return self

    def cut(self, source: str, destination: str) -> World:
        """Stop this direction."""
        self.remark(f"cut {source} to {destination}")
        self._parts.append((source, destination))
        self.network.cut(source, destination)
        return self

    def heal(self) -> World:
        """End partitions and cuts."""
        if self._parts:
            self.remark("the network heals")
        for source, destination in self._parts:
            self.network.mend(source, destination)
        self._parts.clear()
        return self

    def break_connection(self, one: str, other: str) -> World:
        self.remark(f"the connection of {one} and {other} breaks")
        self.network.break_connection(self.network.wire(one, other))
        return self

    def dial_again(self, one: str, other: str) -> World:
        """Both nodes dial, and the new connection replaces the existing one."""
        self.remark(f"{one} and {other} have a second connection")
        self.network.replace(self.network.wire(one, other))
        return self

    def pause(self, name: str) -> World:
        self.remark(f"{name} stands still")
        self.nodes[name].pause()
        return self

    def resume(self, name: str) -> World:
        self.remark(f"{name} goes on")
        self.nodes[name].resume()
        return self

    def upon(self, action: str, do: Callable[[], object]) -> World:
        """Call `do` at the next occurrence of an action (a class of cluster.actions)."""
        self.ambushes.append((action, lambda _process: do()))
        return self

    def broadcast(self, name: str, body: bytes) -> World:
        self.nodes[name].put(SUBMIT, None, body)
        return self

    def request(self, name: str, body: bytes) -> World:
        """Request an operation of the interim service."""
        self.nodes[name].put(REQUEST, None, body)
        return self

    def query(self, name: str, body: bytes, seen: int = 0) -> World:
        """Ask the data service, as a client that has seen the state at index `seen`."""
        self.nodes[name].put(QUERY, None, (body, seen))
        return self

    # ---- time

    def run(self, seconds: float) -> World:
        self.events.run_until(self.events.now + seconds)
        return self

    def run_until(self, condition: Callable[[], bool], *, within: float, what: str = "the condition") -> World:
        """Run until the condition holds; it is checked every `POLL` seconds."""
        limit = self.events.now + within
        while not condition():
            if self.events.now >= limit:
                raise NotReached(f"{what}: not within {within:g} s, by {self.events.now:.3f} s")
            self.events.run_until(min(limit, self.events.now + POLL))
        return self

    def settle(self, quiet: float = SETTLED_AFTER, *, within: float = SETTLE_MAX) -> World:
        """Run until only heartbeats have happened for a while."""
        start = self.events.now
        return self.run_until(
            lambda: self.events.now - max(start, self._step_last) >= quiet, within=within, what="quiet"
        )

    # ---- observation

    def running(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.process is not None]

    def delivered(self, name: str) -> list[bytes]:
        return self.nodes[name].machine.bodies

    def position(self, name: str) -> int:
        """The index of the state of this node: how many entries of the order it has applied."""
        return cast("Process", self.nodes[name].process).total_order.next_report

    def primary(self, name: str) -> View | None:
        """The primary view that this node believes to be in."""
        return self.nodes[name].primary

    def has_primary(self, names: Iterable[str]) -> bool:
        """Whether these nodes, and no others, are in one primary view and know it."""
        chosen = [self.nodes[name] for name in names]
        view = chosen[0].primary
        return (
            view is not None
            and all(node.primary == view for node in chosen)
            and view.members == tuple(sorted(node.pid for node in chosen))
        )
