"""What can go wrong in a run: each fault a small class that says what it does and how it heals.

A fault begins at a time and ends some time later. It does nothing where it does not apply (a crash of what does not
run), so that any part of a schedule is a schedule too. What really took effect is counted in `World.sometimes`.
Above: plan.  Below: the world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from cluster.sim.world import World


class Fault(msgspec.Struct, frozen=True):
    at: float
    lasts: float

    def begin(self, world: World) -> None:
        raise NotImplementedError

    def end(self, world: World) -> None:
        """How it heals."""

    def end_later(self, world: World) -> None:
        """After its time, unless everything has been healed by then."""
        world.events.after(self.lasts, self._end, world)

    def _end(self, world: World) -> None:
        if not world.calm:
            self.end(world)

    def took_effect(self, world: World) -> None:
        world.sometimes[type(self).__name__] += 1
        world.remark(str(self))

    def __str__(self) -> str:
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("at", "lasts")}
        told = ", ".join(f"{name} {value}" for name, value in fields.items())
        return f"{type(self).__name__}({told}) for {self.lasts:.2f} s"


# ---- the network


class Partition(Fault, frozen=True):
    """Only who is in one group can talk."""

    groups: tuple[str, ...]

    def begin(self, world: World) -> None:
        self.took_effect(world)
        for source, destination in world.network.pairs_between(self.groups):
            world.network.cut(source, destination)

    def end(self, world: World) -> None:
        for source, destination in world.network.pairs_between(self.groups):
            world.network.mend(source, destination)


class Cuts(Fault, frozen=True):
    """Some directions carry nothing: one-way and asymmetric cuts."""

    directions: tuple[tuple[str, str], ...]

    def begin(self, world: World) -> None:
        self.took_effect(world)
        for source, destination in self.directions:
            world.network.cut(source, destination)

    def end(self, world: World) -> None:
        for source, destination in self.directions:
            world.network.mend(source, destination)


class BrokenConnection(Fault, frozen=True):
    """A connection breaks, and may be made again at once."""

    one: str
    other: str

    def begin(self, world: World) -> None:
        if world.network.break_connection(world.network.wire(self.one, self.other)):
            self.took_effect(world)


class SecondConnection(Fault, frozen=True):
    """Both dial: another connection takes the place of the one that is there, and nobody was lost."""

    one: str
    other: str

    def begin(self, world: World) -> None:
        if world.network.replace(world.network.wire(self.one, self.other)):
            self.took_effect(world)


class FlakyConnection(Fault, frozen=True):
    """A connection breaks again and again."""

    one: str
    other: str
    every: float

    def begin(self, world: World) -> None:
        self.took_effect(world)
        self._break(world, world.events.now + self.lasts)

    def _break(self, world: World, until: float) -> None:
        if world.events.now < until and not world.calm:
            world.network.break_connection(world.network.wire(self.one, self.other))
            world.events.after(self.every, self._break, world, until)


class SlowLink(Fault, frozen=True):
    """Everything between two nodes takes this many times as long."""

    one: str
    other: str
    factor: float

    def begin(self, world: World) -> None:
        self.took_effect(world)
        world.network.slow_down(self.one, self.other, self.factor)

    def end(self, world: World) -> None:
        world.network.slow_down(self.one, self.other, 1.0)


# ---- the nodes


class Pause(Fault, frozen=True):
    """A process stands still; its connections do not."""

    node: str

    def begin(self, world: World) -> None:
        if world.nodes[self.node].process is not None:
            self.took_effect(world)
            world.nodes[self.node].pause()

    def end(self, world: World) -> None:
        world.nodes[self.node].resume()


class SlowNode(Fault, frozen=True):
    """Every input takes time, and every write takes more."""

    node: str
    input_cost: float
    write_cost: float

    def begin(self, world: World) -> None:
        self.took_effect(world)
        self._set(world, self.input_cost, self.write_cost)

    def end(self, world: World) -> None:
        self._set(world, 0.0, 0.0)

    def _set(self, world: World, input_cost: float, write_cost: float) -> None:
        node = world.nodes[self.node]
        node.input_cost, node.write_cost = input_cost, write_cost


class SlowDisk(Fault, frozen=True):
    """A write takes this many seconds. The process handles inputs meanwhile; effects behind the write wait."""

    node: str
    seconds: float

    def begin(self, world: World) -> None:
        self.took_effect(world)
        world.nodes[self.node].write_time = self.seconds

    def end(self, world: World) -> None:
        world.nodes[self.node].write_time = 0.0


class ClockJump(Fault, frozen=True):
    """The clock of a node leaps forward, or stands still until its time has come again."""

    node: str
    seconds: float

    def begin(self, world: World) -> None:
        self.took_effect(world)
        world.nodes[self.node].jump_clock(self.seconds)


class Crash(Fault, frozen=True):
    """A process ends between two inputs. `silent`: its peers are not told, as when the power fails."""

    node: str
    silent: bool

    def begin(self, world: World) -> None:
        if world.nodes[self.node].crash(silent=self.silent):
            self.took_effect(world)

    def end(self, world: World) -> None:
        world.nodes[self.node].start()


class CrashInside(Fault, frozen=True):
    """A process ends in the middle of its effects: some took place, the others never do."""

    node: str
    effects: int

    def begin(self, world: World) -> None:
        if world.nodes[self.node].process is not None:
            self.took_effect(world)
            world.crash_after(self.node, self.effects)

    def end(self, world: World) -> None:
        world.nodes[self.node].crash_after = -1
        world.nodes[self.node].start()


class DiskLoss(Fault, frozen=True):
    """A process ends and its disk is lost. Who starts there later is another process."""

    node: str

    def begin(self, world: World) -> None:
        if world.nodes[self.node].crash(disk_lost=True):
            self.took_effect(world)

    def end(self, world: World) -> None:
        world.nodes[self.node].start()


class TotalCrash(Fault, frozen=True):
    """All processes end at once; each starts again in its own time."""

    order: str
    apart: float

    def begin(self, world: World) -> None:
        self.took_effect(world)
        for node in world.running():
            node.crash(silent=True)

    def end(self, world: World) -> None:
        for i, name in enumerate(self.order):
            world.events.after(i * self.apart, _start_again, world, name)


def _start_again(world: World, name: str) -> None:
    node = world.nodes[name]
    if node.started_count and not world.calm:
        node.start()


class Leave(Fault, frozen=True):
    """A process says goodbye, for ever."""

    node: str

    def begin(self, world: World) -> None:
        if world.nodes[self.node].process is not None:
            self.took_effect(world)
            world.leave(self.node)


class Join(Fault, frozen=True):
    """A new node starts, which knows one or some of the others."""

    node: str

    def begin(self, world: World) -> None:
        if world.nodes[self.node].started_count == 0:
            self.took_effect(world)
            world.nodes[self.node].start()


class Ambush(Fault, frozen=True):
    """Another fault, at the next moment when some process does something: in the middle of a view change, say."""

    action: str  # its name in cluster.actions
    fault: SimpleFault

    def begin(self, world: World) -> None:
        world.ambushes.append((self.action, lambda process: self._spring(world, process)))

    def _spring(self, world: World, process: ProcessId) -> None:
        world.sometimes[f"Ambush at {self.action}"] += 1
        fault = self.fault
        if isinstance(fault, CrashInside) and not fault.node:  # whoever did it
            fault = CrashInside(fault.at, fault.lasts, process.name, fault.effects)
        fault.begin(world)
        fault.end_later(world)


SimpleFault = (
    Partition | Cuts | BrokenConnection | SecondConnection | FlakyConnection | SlowLink | Pause | SlowNode
    | SlowDisk | ClockJump | Crash | CrashInside | DiskLoss | TotalCrash | Leave | Join
)  # fmt: skip
AnyFault = SimpleFault | Ambush
