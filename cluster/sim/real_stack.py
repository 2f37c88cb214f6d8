"""Runs the real protocol stack (`cluster.stack.Process`) in the simulator, checked by the specifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.sim.data.run import make_data_process
from cluster.sim.journal import Journal
from cluster.sim.plan import Operation, RunPlan, make_plan
from cluster.sim.run import QUIET, RunClients, RunFailure, RunResult, request_operation, run
from cluster.sim.spec_judge import Specifications
from cluster.sim.stories import has_data_service, has_interim_service
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.durable import Image
    from cluster.layer import RandomSource
    from cluster.names import ProcessId
    from cluster.settings import Settings
    from cluster.sim.explore import SeedTask
    from cluster.sim.history_machine import History
    from cluster.sim.node import ProcessFactory
    from cluster.sim.world import FrameListener, World


class InterimClients(RunClients):
    """Clients of the interim service. Their requests in the fault phase are in the plan."""

    def __init__(self, judge: Specifications) -> None:
        self._judge = judge

    def use_stable_view(self, world: World) -> None:
        """Requests at all nodes after the service stabilised, some at the same moment."""
        chance = world.chance.fork("stable view")
        start = world.events.now
        for node in world.running():
            for number in range(4):
                at = start + (0.0 if number == 0 else chance.between(0.0, 0.2))
                operation = Operation(at, node.name, b"%s stable %d" % (node.name.encode(), number))
                world.events.at(at, request_operation, operation, world)
        world.settle(QUIET)
        self._judge.stayed(world)


def make_interim_process(
    me: ProcessId,
    settings: Settings,
    image: Image,
    machine: History,
    chance: RandomSource,
    trace: Callable[[Action], None] | None,
) -> Process:
    """A process with the interim service."""
    return Process(me, settings, image, machine, chance, trace, shared=Journal())


def factory_of(story: str) -> ProcessFactory:
    """The factory of the processes of a fixed scenario."""
    if has_data_service(story):
        return make_data_process
    return make_interim_process if has_interim_service(story) else Process


def play(plan: RunPlan, listener: FrameListener | None = None) -> RunResult:
    """Run a plan. If it has operations, the processes have the interim service."""
    has_service = bool(plan.operations)
    judge = Specifications(plan.names[0], interim=has_service)
    if has_service:
        return run(plan, make_interim_process, judge, listener, InterimClients(judge))
    return run(plan, Process, judge, listener)


def run_task(task: SeedTask) -> RunResult:
    """Run the seed of a task."""
    return play(make_plan(task.seed, task.nodes_min, task.nodes_max, interim=task.interim))


def same_failure(wanted: RunFailure) -> Callable[[RunPlan], bool]:
    """Returns a predicate: whether a plan fails in the same way."""

    def fails(plan: RunPlan) -> bool:
        failure = play(plan).failure
        return failure is not None and failure.kind == wanted.kind

    return fails
