"""Checks a simulated run against the specifications. The only module of the simulator that uses `cluster.specs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cluster.names import ProcessId
from cluster.sim.journal import Journal
from cluster.sim.run import RunJudge
from cluster.specs.atomic_object import AoSpec
from cluster.specs.checkers import Checkers, all_specs
from cluster.specs.disk import DiskSpec
from cluster.specs.eo_fifo_ds import EoFifoDsSpec
from cluster.specs.interim_liveness import InterimLivenessSpec
from cluster.specs.invariants.interim import InterimInvariants
from cluster.specs.spec import Spec, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.actions import Action
    from cluster.durable import Image
    from cluster.sim.world import World
    from cluster.specs.invariants.joint import Joint
    from cluster.stack import Process


class Specifications(RunJudge):
    """All specifications, following one run. `more`: those of a service."""

    def __init__(self, founder: str, *, interim: bool = False, more: Sequence[Spec] = ()) -> None:
        specs = [*all_specs(ProcessId(founder)), DiskSpec(self._image_of), *more]
        self._interim: InterimLivenessSpec | None = None
        if interim:
            service = EoFifoDsSpec(Journal)
            views = InterimInvariants(service)
            specs += [service, AoSpec(Journal), views]
            self._interim = InterimLivenessSpec(service, views)
        self._checkers = Checkers(ProcessId(founder), specs)
        self._world: World | None = None

    def watch(self, world: World) -> None:
        self._world = world

    def _image_of(self, process: ProcessId) -> Image:
        assert self._world is not None
        return self._world.nodes[process.name].disk.image

    def step(self, process: ProcessId, action: Action) -> None:
        self._checkers.observe(process, action, self._world.events.now if self._world is not None else 0.0)

    def after(self, world: World, process: ProcessId) -> None:
        self._checkers.after(process, joint(world))

    def finish(self, world: World, live: bool) -> None:
        if live:
            self._checkers.at_end(joint(world), {node.pid: node.machine.digest() for node in world.running()})
            if self._interim is not None:
                self._interim.judge_end(joint(world))
        else:
            self._checkers.after_all(joint(world))

    def stayed(self, world: World) -> None:
        self._checkers.after_all(joint(world))
        if self._interim is not None:
            self._interim.judge_stayed(joint(world))

    def in_time(self, last_event: float, members: list[ProcessId], *, detection: float, latency: float) -> None:
        self._checkers.timing.judge(last_event, members, detection=detection, latency=latency, block_time=0.0)

    def clauses(self) -> dict[str, int]:
        found = self._checkers.coverage()
        if self._interim is not None:
            found[self._interim.NAME] = self._interim.coverage
        return {f"{spec}: {clause}": count for spec, clauses in found.items() for clause, count in clauses.items()}

    def verdict(self, _error: Exception) -> str | None:
        return _error.spec if isinstance(_error, Violation) else None


def joint(world: World) -> Joint:
    """The joint state of the running processes, each of which must be a complete stack."""
    return {node.pid: cast("Process", node.process) for node in world.running()}
