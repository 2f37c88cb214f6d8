"""One simulation run of the data service: faults and clients, healing, all replies, queries in a stable view."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cluster.actions import Crashed
from cluster.data.replica import LEAST_LOADED
from cluster.sim.data.clients import DataClients
from cluster.sim.data.plan import ClientStep, DataPlan, make_data_plan
from cluster.sim.history_machine import History
from cluster.sim.run import QUIET, RunResult, heal, last_change, result_of, schedule, wait_until_live
from cluster.sim.spec_judge import Specifications
from cluster.sim.world import FrameListener, World
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


class DataWorld(World):
    """A world with clients."""

    clients: DataClients

    def step(self, process: ProcessId, action: Action) -> None:
        super().step(process, action)
        if type(action) is Crashed:
            self.clients.crashed(process)


def play_data(plan: DataPlan, listener: FrameListener | None = None) -> RunResult:
    """Run a plan."""
    base = plan.base
    judge = DataSpecifications(base.names[0])
    world = DataWorld(
        make_data_process,
        seed=base.seed,
        settings=base.settings,
        delays=base.delays,
        watcher=judge,
        listener=listener,
        coded=base.coded,
    )
    world.clients = DataClients(world, world.sometimes)
    judge.watch(world)
    return result_of(base.seed, world, judge, lambda: _play(plan, world, judge))


def run_data_task(task: SeedTask) -> RunResult:
    """Run the seed of a task."""
    return play_data(make_data_plan(task.seed, task.nodes_min, task.nodes_max))


def _play(plan: DataPlan, world: DataWorld, judge: DataSpecifications) -> None:
    schedule(plan.base, world)
    for node in world.nodes.values():
        node.clients = world.clients
    for step in plan.steps:
        world.events.at(step.at, world.clients.act, step)
    world.events.run_until(plan.base.lasts)
    heal(world)
    live = wait_until_live(world)
    judge.finish(world, live)
    if not live:
        return
    shares = _share_queries(world)
    judge.sharing.invariant_replies(judge.service.map)
    if world.settings.query_sharing != LEAST_LOADED:
        judge.sharing.invariant_shares(shares)
    if len(world.running()) > 1:
        last_change(world, judge)


def _share_queries(world: DataWorld) -> list[int]:
    """Queries at random nodes of the stable view of all. Returns how many each member executed."""
    chance = world.chance.fork("stable view")
    nodes = world.running()
    before = [_executed(node.process) for node in nodes]
    for number in range(ROUNDS * len(nodes)):
        body = b"q stable %d" % number
        step = ClientStep(world.events.now, f"s{number}", chance.choice(nodes).name, False, False, body)
        world.events.at(world.events.now, world.clients.act, step)
    world.settle(QUIET)
    return [_executed(node.process) - count for node, count in zip(nodes, before, strict=True)]


def _executed(process: object) -> int:
    data = cast("Process", process).data
    assert data is not None
    return data.executed
