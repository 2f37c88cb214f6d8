"""Plans with pools of upstream servers: the faults of `plan`, and requests for slots of servers, from one seed.

The nodes share a pool of one to three servers. In some runs each node also has a pool of its own, or the tables of the
nodes differ, so that a server is in two pools. Nodes change the bounds by hand and their votes on the servers' health.
The laws find limits below the bounds. Service times are of two kinds, so that classes differ in slot time.
Below: plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.sim.seeded_random import SeededRandom
from qosweb.engine.replicated.upstreams import Vote
from qosweb.engine.sim.plan import TAIL, EnginePlan, Pool, ServerChange, SlotArrival, make_plan
from qosweb.engine.sim.policies import NAMES

if TYPE_CHECKING:
    from cluster.sim.plan import RunPlan as GroupPlan

SERVERS = ("s", "t", "u")
OWN = "own"
SLOTS = (1, 2, 3, 4, 6, 8, 12, 20)
REQUESTS_MAX = 500
SECONDS = (0.005, 0.02, 0.05, 0.05, 0.2, 0.5)  # of service
PIPE_PART = 4  # of the requests for the nodes' own pipes, one in this many stays


def make_slot_plan(seed: int) -> EnginePlan:
    plan = make_plan(seed)
    chance = SeededRandom(seed).fork("slots")
    shared: Pool = tuple((name, True) for name in SERVERS[: 1 + chance.below(3)])
    tables: dict[str, tuple[Pool, ...]] = dict.fromkeys(plan.group.names, (shared,))
    if chance.hits(0.3):  # every node has a server of its own
        tables = {node: (*pools, ((OWN, False),)) for node, pools in tables.items()}
    if len(shared) > 1 and chance.hits(0.3):  # the tables of the nodes differ
        node = chance.choice(plan.group.names)
        tables[node] = (shared[:1], *tables[node][1:])
    slots = {name: chance.choice(SLOTS) for name in (*SERVERS, OWN)}
    return msgspec.structs.replace(
        plan,
        arrivals=plan.arrivals[::PIPE_PART],
        tables=tables,
        slots=slots,
        slot_arrivals=_arrivals(chance.fork("requests"), plan.group, tables, slots),
        server_changes=_changes(chance.fork("changes"), plan.group, tables),
    )


def _arrivals(
    chance: SeededRandom, group: GroupPlan, tables: dict[str, tuple[Pool, ...]], slots: dict[str, int]
) -> tuple[SlotArrival, ...]:
    overload = chance.choice((0.3, 0.8, 1.2, 3.0))
    seconds = chance.choice((SECONDS[:3], SECONDS[2:5], SECONDS))
    end = group.lasts + TAIL
    all_slots = sum(slots[name] for name, _ in tables[group.names[0]][0])
    mean = max(sum(seconds) / len(seconds) / (overload * all_slots), end / REQUESTS_MAX)
    names = list(NAMES)
    chance.shuffle(names)
    names += names[:2] * chance.below(4)
    nodes = list(group.names) + [chance.choice(group.names)] * chance.below(6)
    hang_up_share = chance.choice((0.0, 0.05, 0.3))
    fail_share = chance.choice((0.0, 0.05, 0.6))
    found: list[SlotArrival] = []
    time = 0.5

    def one(node: str) -> SlotArrival:
        lasts_us = int(1e6 * chance.choice(seconds) * chance.between(0.8, 1.2))
        hangs_up = chance.exponential(0.2) + 0.001 if chance.hits(hang_up_share) else 0.0
        pool = chance.choice(tables[node])
        return SlotArrival(
            time, node, chance.choice(names), lasts_us, lasts_us, hangs_up, pool, chance.hits(fail_share)
        )

    while time < end and len(found) < REQUESTS_MAX:
        time += chance.exponential(mean)
        if chance.hits(0.02):  # a burst
            node = chance.choice(nodes)
            found += [one(node) for _ in range(10 + chance.below(30))]
        else:
            found.append(one(chance.choice(nodes)))
    return tuple(found)


def _changes(chance: SeededRandom, group: GroupPlan, tables: dict[str, tuple[Pool, ...]]) -> tuple[ServerChange, ...]:
    found: list[ServerChange] = []
    for _ in range(chance.choice((0, 3, 12))):
        node = chance.choice(group.names)
        name, _ = chance.choice(chance.choice(tables[node]))
        vote = chance.choice((Vote.UNKNOWN, Vote.HEALTHY, Vote.OUT, Vote.OUT))
        found.append(ServerChange(chance.between(0.5, group.lasts), node, name, chance.choice(SLOTS), vote))
    return tuple(sorted(found, key=lambda one: one.at))
