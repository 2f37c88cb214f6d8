"""Plan of a simulated run: the group's faults, and the requests, policy changes and capacity changes, from one seed.

Arrivals are random and uneven over nodes and classes, some in bursts. Now and then a flash crowd requests one class at
one node. Policies and capacities change during the run.
Below: `cluster.sim.plan`, policies.
"""

from __future__ import annotations

import msgspec

from cluster.sim import plan as group_plan
from cluster.sim.plan import RunPlan as GroupPlan
from cluster.sim.seeded_random import SeededRandom
from qosweb.engine.replicated.upstreams import Vote
from qosweb.engine.sim.policies import CHANNEL_BPS, NAMES, POLICIES

Pool = tuple[tuple[str, bool], ...]  # the name of each server, and whether it is shared

SIZES = (2_000, 8_192, 16_384, 16_384, 16_384, 65_536)
MEAN_SIZE = sum(SIZES) // len(SIZES)
ARRIVALS_MAX = 350
LASTS_MAX = 7.0  # seconds of faults; shorter than for a group alone, because clients cost more
TAIL = 1.5  # seconds of traffic after everything has healed


class Arrival(msgspec.Struct, frozen=True):
    """A request of a client."""

    at: float
    node: str
    name: str  # of its class; the default class if the policy has no such class
    cost: int
    real_cost: int
    hangs_up: float  # seconds after its arrival; 0: never


class SlotArrival(Arrival, frozen=True):
    """A request for a pool of upstream servers. Its costs are microseconds of slot time."""

    pool: Pool
    fails: bool  # the server responds with an error


class CapacityChange(msgspec.Struct, frozen=True):
    at: float
    node: str
    capacity_bps: int


class PolicyChange(msgspec.Struct, frozen=True):
    """A new policy is submitted at this node."""

    at: float
    node: str
    policy: int


class ServerChange(msgspec.Struct, frozen=True):
    """A node reports another bound by hand, and another vote, for a server of its table."""

    at: float
    node: str
    server: str
    slots: int
    vote: Vote


class EnginePlan(msgspec.Struct, frozen=True):
    """Everything that happens in a run.

    `lag`: seconds by which news of primary views reaches the engine late. `follows_at_once`: redirected clients arrive
    soon, and all of them. `is_paced`: responses share the pipe as the pacer of a real node divides it.
    """

    group: GroupPlan
    policy: int
    lag: float
    capacities: dict[str, int]
    arrivals: tuple[Arrival, ...]
    reports: tuple[CapacityChange, ...]
    changes: tuple[PolicyChange, ...]
    follows_at_once: bool = False
    tables: dict[str, tuple[Pool, ...]] = {}  # the pools of upstream servers of each node
    slots: dict[str, int] = {}  # of each server, at first
    slot_arrivals: tuple[SlotArrival, ...] = ()
    server_changes: tuple[ServerChange, ...] = ()
    is_paced: bool = False

    @property
    def seed(self) -> int:
        return self.group.seed

    @property
    def lasts(self) -> float:
        return self.group.lasts

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {len(self.group.names)} nodes, {self.group.first} from the start",
            f"  {self.lasts:.1f} s of faults, {len(self.arrivals)} requests, policy {self.policy}",
            "  capacities " + ", ".join(f"{name} {bps // 1000} KB/s" for name, bps in self.capacities.items()),
        ]
        steps = [(fault.at, str(fault)) for fault in self.group.faults]
        steps += [(one.at, f"{one.node} has {one.capacity_bps // 1000} KB/s") for one in self.reports]
        steps += [(one.at, f"{one.node} is given policy {one.policy}") for one in self.changes]
        steps += [
            (one.at, f"{one.node} reports {one.slots} slots of {one.server}, vote {one.vote.name}")
            for one in self.server_changes
        ]
        return "\n".join([*lines, *(f"  {at:8.4f}  {text}" for at, text in sorted(steps))])


def make_plan(seed: int, nodes_min: int = 3, nodes_max: int = 4) -> EnginePlan:
    group = group_plan.make_plan(seed, nodes_min, nodes_max)
    lasts = min(LASTS_MAX, group.lasts)
    faults = tuple(fault for fault in group.faults if fault.at < lasts)
    group = msgspec.structs.replace(group, submissions=(), faults=faults, lasts=lasts)
    chance = SeededRandom(seed).fork("traffic")
    capacities = {name: CHANNEL_BPS * chance.choice((1, 2, 3, 4)) + chance.below(20_000) for name in group.names}
    return EnginePlan(
        group=group,
        policy=chance.below(len(POLICIES)),
        lag=chance.choice((0.0, 0.0, 0.003, 0.05)),
        capacities=capacities,
        arrivals=_arrivals(chance.fork("arrivals"), group, sum(capacities.values())),
        reports=_reports(chance.fork("capacities"), group),
        changes=_changes(chance.fork("policies"), group),
    )


def _arrivals(chance: SeededRandom, group: GroupPlan, capacity_bps: int) -> tuple[Arrival, ...]:
    overload = chance.choice((0.4, 1.0, 1.5, 3.0))
    names = list(NAMES)
    chance.shuffle(names)
    names += names[: 1 + chance.below(3)] * chance.below(4)  # some classes get more requests
    nodes = list(group.names) + [chance.choice(group.names)] * chance.below(6)
    end = group.lasts + TAIL
    mean = max(MEAN_SIZE / (overload * capacity_bps), end / ARRIVALS_MAX)
    hang_up_share = chance.choice((0.0, 0.05, 0.3))
    found: list[Arrival] = []
    time = 0.5

    def one(node: str, name: str) -> Arrival:
        cost = chance.choice(SIZES)
        real = cost if chance.hits(0.8) else chance.below(2 * cost) + 1
        hangs_up = chance.exponential(0.3) + 0.001 if chance.hits(hang_up_share) else 0.0
        return Arrival(time, node, name, cost, real, hangs_up)

    while time < end and len(found) < ARRIVALS_MAX:
        time += chance.exponential(mean)
        if chance.hits(0.01):  # a flash crowd
            node, name = chance.choice(nodes), chance.choice(names)
            found += [one(node, name) for _ in range(10 + chance.below(30))]
        else:
            found += [one(chance.choice(nodes), chance.choice(names)) for _ in range(4 if chance.hits(0.1) else 1)]
    return tuple(found)


def _reports(chance: SeededRandom, group: GroupPlan) -> tuple[CapacityChange, ...]:
    return tuple(
        CapacityChange(
            chance.between(0.5, group.lasts), chance.choice(group.names), CHANNEL_BPS * (1 + chance.below(4))
        )
        for _ in range(chance.choice((0, 2, 8)))
    )


def _changes(chance: SeededRandom, group: GroupPlan) -> tuple[PolicyChange, ...]:
    return tuple(
        PolicyChange(chance.between(0.5, group.lasts), chance.choice(group.names), chance.below(len(POLICIES)))
        for _ in range(chance.choice((0, 1, 3)))
    )
