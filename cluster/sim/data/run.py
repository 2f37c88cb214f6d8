"""One simulation run of the data service: faults and clients, healing, all replies, queries in a stable view."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cluster.data.replica import LEAST_LOADED
from cluster.sim.data.clients import DataClients
from cluster.sim.data.plan import ClientStep, DataPlan, make_data_plan
from cluster.sim.history_machine import History
from cluster.sim.run import QUIET, RunClients, RunResult, run
from cluster.sim.spec_judge import Specifications
from cluster.specs.invariants.data import DataInvariants
from cluster.specs.services.data import DataDelaySpec, DataSpec
from cluster.specs.services.data_sharing import DataSharingSpec
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.durable import Image
    from cluster.layer import RandomSource
    from cluster.names import ProcessId
    from cluster.settings import Settings
    from cluster.sim.explore import SeedTask
    from cluster.sim.world import FrameListener, World

ROUNDS = 3  # queries for each member in the stable view at the end


def make_data_process(
    me: ProcessId,
    settings: Settings,
    image: Image,
    machine: History,
    chance: RandomSource,
    trace: Callable[[Action], None] | None,
) -> Process:
    """A process with the data service."""
    return Process(me, settings, image, machine, chance, trace, queryable=machine)


def reference_machine() -> History:
    return History(keep_bodies=False)


class DataSpecifications(Specifications):
    """The specifications of the stack and of the data service, following one run."""

    def __init__(self, founder: str) -> None:
        self.service, self.sharing = DataSpec(reference_machine), DataSharingSpec()
        delayed, state = DataDelaySpec(reference_machine), DataInvariants(self.service)
        super().__init__(founder, more=(self.service, delayed, self.sharing, state))

    def finish(self, world: World, live: bool) -> None:
        super().finish(world, live)
        if live:
            self.sharing.invariant_replies(self.service.map)


class DataWorkload(RunClients):
    """The clients of a plan. In the stable view at the end, they share queries evenly."""

    def __init__(self, steps: tuple[ClientStep, ...], judge: DataSpecifications) -> None:
        self._steps = steps
        self._judge = judge

    def start(self, world: World) -> None:
        self._clients = DataClients(world, world.sometimes)
        for node in world.nodes.values():
            node.clients = self._clients
        for step in self._steps:
            world.events.at(step.at, self._clients.act, step)

    def use_stable_view(self, world: World) -> None:
        shares = self._share_queries(world)
        self._judge.sharing.invariant_replies(self._judge.service.map)
        if world.settings.query_sharing != LEAST_LOADED:
            self._judge.sharing.invariant_shares(shares)

    def _share_queries(self, world: World) -> list[int]:
        """Queries at random nodes. Returns how many each member executed."""
        chance = world.chance.fork("stable view")
        nodes = world.running()
        before = [_executed(node.process) for node in nodes]
        for number in range(ROUNDS * len(nodes)):
            body = b"q stable %d" % number
            step = ClientStep(world.events.now, f"s{number}", chance.choice(nodes).name, False, False, body)
            world.events.at(world.events.now, self._clients.act, step)
        world.settle(QUIET)
        return [_executed(node.process) - count for node, count in zip(nodes, before, strict=True)]


def play_data(plan: DataPlan, listener: FrameListener | None = None) -> RunResult:
    """Run a plan."""
    judge = DataSpecifications(plan.base.names[0])
    return run(plan.base, make_data_process, judge, listener, DataWorkload(plan.steps, judge))


def run_data_task(task: SeedTask) -> RunResult:
    """Run the seed of a task."""
    return play_data(make_data_plan(task.seed, task.nodes_min, task.nodes_max))


def _executed(process: object) -> int:
    data = cast("Process", process).data
    assert data is not None
    return data.executed
