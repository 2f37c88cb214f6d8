"""Fault types of the simulator: each class injects one kind of fault and heals it.

A fault begins at a time and ends some time later. It does nothing where it does not apply (a crash of a stopped
process), so any subset of a schedule is a valid schedule. `World.sometimes` counts the faults that took effect.
Above: plan.  Below: the world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from cluster.sim.world import World


class Fault(msgspec.Struct, frozen=True):
    """Base class: `begin` injects the fault, `end` heals it."""

    at: float
    lasts: float

    def begin(self, world: World) -> None:
        raise NotImplementedError

    def end(self, world: World) -> None:
        """Heal the fault."""

    def end_later(self, world: World) -> None:
        """Schedule the end, unless everything is healed before."""
        world.events.after(self.lasts, self._end, world)

    def _end(self, world: World) -> None:
        if not world.calm:
            self.end(world)

    def took_effect(self, world: World) -> None:
        world.sometimes[type(self).__name__] += 1
        world.remark(str(self))

    def __str__(self) -> str:
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("at", "lasts")}
        shown = ", ".join(f"{name} {value}" for name, value in fields.items())
        return f"{type(self).__name__}({shown}) for {self.lasts:.2f} s"


# ---- the network


class Partition(Fault, frozen=True):
    """Only nodes of the same group can communicate."""

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
    """A connection breaks and may be re-established at once."""

    one: str
    other: str

    def begin(self, world: World) -> None:
        if world.network.break_connection(world.network.wire(self.one, self.other)):
            self.took_effect(world)


class SecondConnection(Fault, frozen=True):
    """Both nodes dial: a new connection replaces the existing one, and no peer was lost."""

    one: str
    other: str

    def begin(self, world: World) -> None:
        if world.network.replace(world.network.wire(self.one, self.other)):
            self.took_effect(world)


class FlakyConnection(Fault, frozen=True):
    """A connection breaks repeatedly."""

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
    """Delays between two nodes are multiplied by a factor."""

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
    """A process pauses; its connections stay open."""

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
    """The clock of a node jumps forward, or stands still until the old time is reached again."""

    node: str
    seconds: float

    def begin(self, world: World) -> None:
        self.took_effect(world)
        world.nodes[self.node].jump_clock(self.seconds)


class Crash(Fault, frozen=True):
    """A process crashes between two inputs. `silent`: its peers get no disconnect, as in a power failure."""

    node: str
    silent: bool

    def begin(self, world: World) -> None:
        if world.nodes[self.node].crash(silent=self.silent):
            self.took_effect(world)

    def end(self, world: World) -> None:
        world.nodes[self.node].start()


class CrashInside(Fault, frozen=True):
    """A process crashes between two effects of one step: the remaining effects never happen."""

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
    """A process crashes and its disk is lost. The node restarts as a new process."""

    node: str

    def begin(self, world: World) -> None:
        if world.nodes[self.node].crash(disk_lost=True):
            self.took_effect(world)

    def end(self, world: World) -> None:
        world.nodes[self.node].start()


class TotalCrash(Fault, frozen=True):
    """All processes crash at once; each restarts at its own time."""

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
    """A process leaves the group for good."""

    node: str

    def begin(self, world: World) -> None:
        if world.nodes[self.node].process is not None:
            self.took_effect(world)
            world.leave(self.node)


class Join(Fault, frozen=True):
    """A new node starts, with one or more contacts."""

    node: str

    def begin(self, world: World) -> None:
        if world.nodes[self.node].started_count == 0:
            self.took_effect(world)
            world.nodes[self.node].start()


class Ambush(Fault, frozen=True):
    """Triggers another fault at the next occurrence of an action, for example during a view change."""

    action: str  # class name in cluster.actions
    fault: SimpleFault

    def begin(self, world: World) -> None:
        world.ambushes.append((self.action, lambda process: self._spring(world, process)))

    def _spring(self, world: World, process: ProcessId) -> None:
        world.sometimes[f"Ambush at {self.action}"] += 1
        fault = self.fault
        if isinstance(fault, CrashInside) and not fault.node:  # the process that acted
            fault = CrashInside(fault.at, fault.lasts, process.name, fault.effects)
        fault.begin(world)
        fault.end_later(world)


SimpleFault = (
    Partition | Cuts | BrokenConnection | SecondConnection | FlakyConnection | SlowLink | Pause | SlowNode
    | SlowDisk | ClockJump | Crash | CrashInside | DiskLoss | TotalCrash | Leave | Join
)  # fmt: skip
AnyFault = SimpleFault | Ambush
