"""One simulated run: clients and faults, then all faults heal, then all requests have to end and release everything.

If too many nodes are lost for ever for a primary view to exist, each remaining node decides alone, and the same
requirements hold for each of them.
Above: command_line.  Below: plan, clients, judge, and the world of `cluster.sim`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

from cluster.sim import run as group_run
from cluster.sim.world import FrameListener, NotReached, World
from qosweb.engine.sim.clients import Clients
from qosweb.engine.sim.host import Host
from qosweb.engine.sim.judge import EngineJudge
from qosweb.engine.sim.policies import ALL, policy_of
from qosweb.engine.sim.slot_clients import ServerTables, SlotClients
from qosweb.engine.sim.slot_judge import SlotJudge

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.durable import Image
    from cluster.layer import RandomSource as AnyChance
    from cluster.names import ProcessId
    from cluster.settings import Settings
    from cluster.sim.faults import AnyFault
    from cluster.sim.history_machine import History
    from cluster.sim.run import RunResult
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.sim.plan import CapacityChange, EnginePlan, PolicyChange, ServerChange

OVER_WITHIN = 30.0  # virtual seconds after healing: the longest recovery of a group plus the longest lifetime
EVENTS_MAX = 2_000_000


class EngineWorld:
    """A simulated cluster, its clients and its judge."""

    def __init__(self, plan: EnginePlan, listener: FrameListener | None = None) -> None:
        self.plan = plan
        self.judge = EngineJudge()
        group = plan.group
        self.world = World(
            self._make, seed=plan.seed, settings=group.settings, delays=group.delays, watcher=self.judge,
            listener=listener, coded=group.coded,
        )  # fmt: skip
        self.world.events.handled_max = EVENTS_MAX
        chance = self.world.chance.fork("clients")
        self.clients = Clients(self.world, chance, follow_at_once=plan.follows_at_once, is_paced=plan.is_paced)
        self.slot_judge = SlotJudge(self.world)
        self.slot_clients = SlotClients(self.world, self.clients.tallies, self.slot_judge)
        self.judge.slots = self.slot_judge
        self.capacities = dict(plan.capacities)
        self.tables = ServerTables(plan)

    def _make(
        self,
        me: ProcessId,
        settings: Settings,
        image: Image,
        machine: History,
        chance: AnyChance,
        trace: Callable[[Action], None] | None,
    ) -> Host:
        return Host(
            self.world, self.world.nodes[me.name], _policy_numbered(self.plan.policy), self.judge, self.plan.lag,
            self.capacities[me.name], self.tables.of(me.name), (me, settings, image, machine, chance, trace),
        )  # fmt: skip

    def hosts(self) -> list[Host]:
        return [cast("Host", node.process) for node in self.world.running()]

    # ---- the run

    def play(self) -> None:
        plan, world = self.plan, self.world
        group = plan.group
        founder = group.names[0]
        for name in group.names:
            contacts = () if name == founder else founder if name in group.first else group.first
            world.add(name, contacts=contacts, founds=name == founder)
        for name in group.first:
            world.nodes[name].start()
        for fault in group.faults:
            world.events.at(fault.at, self._begin, fault)
        for arrival in plan.arrivals:
            world.events.at(arrival.at, self.clients.arrive, arrival)
        for slot_arrival in plan.slot_arrivals:
            world.events.at(slot_arrival.at, self.slot_clients.arrive, slot_arrival)
        for server_change in plan.server_changes:
            world.events.at(server_change.at, self._change_server, server_change)
        for report in plan.reports:
            world.events.at(report.at, self._report, report)
        for change in plan.changes:
            world.events.at(change.at, self._change, change)
        world.events.run_until(plan.lasts)
        group_run.heal(world)
        self.end()

    def _begin(self, fault: AnyFault) -> None:
        fault.begin(self.world)
        fault.end_later(self.world)

    def _report(self, report: CapacityChange) -> None:
        self.capacities[report.node] = report.capacity_bps
        host = cast("Host | None", self.world.nodes[report.node].process)
        if host is not None and not host.node.paused:
            self.world.sometimes["another capacity"] += 1
            host.wake()
            host.report(report.capacity_bps)
            host.poke()

    def _change(self, change: PolicyChange) -> None:
        host = cast("Host | None", self.world.nodes[change.node].process)
        if host is not None and host.engine.solo is None and not host.node.paused:
            self.world.sometimes["a policy is asked for"] += 1
            host.wake()
            host.engine.change_policy(_policy_numbered(change.policy))
            host.poke()

    def _change_server(self, change: ServerChange) -> None:
        self.tables.change(change)
        host = cast("Host | None", self.world.nodes[change.node].process)
        if host is not None and not host.node.paused:
            self.world.sometimes[f"a server is reported {change.vote.name}"] += 1
            host.wake()
            host.engine.report_upstreams(self.tables.of(change.node))
            host.poke()

    # ---- the end

    def end(self) -> None:
        world = self.world
        for arrivals in (self.plan.arrivals, self.plan.slot_arrivals):
            if arrivals:
                world.events.run_until(max(world.events.now, arrivals[-1].at))
        self._until(lambda: not self._waits(), lambda: self._waits()[:3])
        whole = self._is_whole()
        self._until(lambda: not self.judge.held(self.hosts()), lambda: self.judge.held(self.hosts())[:3])
        if whole and self.hosts():
            self._until(lambda: group_run.live(world), lambda: [group_run.state_of(world)])  # same position
            self.judge.equal(self.hosts())
            self.judge.votes(self.hosts())
            self.judge.totals(self.hosts(), self.clients)
            self._until(
                lambda: not self.slot_judge.reserved(self.hosts()), lambda: self.slot_judge.reserved(self.hosts())
            )

    def _waits(self) -> list[str]:
        self.clients.forget_the_dead()
        self.slot_clients.forget_the_dead()
        return [str(client) for client in (*self.clients.open, *self.slot_clients.open)]

    def _until(self, condition: Callable[[], bool], left: Callable[[], list[str]]) -> None:
        try:
            self.world.run_until(condition, within=OVER_WITHIN, what="an end")
        except NotReached as late:
            raise NotReached(f"{late}: {'; '.join(sorted(left()))}") from None

    def _is_whole(self) -> bool:
        """Whether all running nodes form one primary view; raises if they could but do not."""
        world = self.world

        def whole() -> bool:
            names = [node.name for node in world.running()]
            together = all(host.engine.solo is None for host in self.hosts())
            return bool(names) and world.has_primary(names) and together

        try:
            world.run_until(whole, within=group_run.LIVE_WITHIN, what="one primary view of all")
        except NotReached:
            if group_run.allowed(world):
                raise
            world.sometimes["no primary view is allowed any more"] += 1
            return False
        return True


@cache
def _policy_numbered(number: int) -> CompiledPolicy:
    return policy_of(ALL[number])


def play(plan: EnginePlan, listener: FrameListener | None = None) -> RunResult:
    scene = EngineWorld(plan, listener)

    def play_and_count() -> None:
        try:
            scene.play()
        finally:
            for client in scene.clients.all:
                scene.world.sometimes[f"requests: {client.fate or 'not over'}"] += 1
            for client in scene.slot_clients.all:
                scene.world.sometimes[f"requests for servers: {client.fate or 'not over'}"] += 1

    return group_run.result_of(plan.seed, scene.world, scene.judge, play_and_count)
