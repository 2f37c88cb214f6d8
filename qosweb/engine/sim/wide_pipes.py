"""Plans with many channels per node, and flash crowds that fill them; otherwise the same faults and clients as `plan`.

A node with many ready requests sends batches less often (`batch_timing`); nodes with few channels never do.
Below: plan.
"""

from __future__ import annotations

import msgspec

from cluster.sim.seeded_random import SeededRandom
from qosweb.engine.sim.plan import SIZES, Arrival, EnginePlan, make_plan
from qosweb.engine.sim.policies import NAMES

WIDER = 12  # times as many channels
CROWDS = 4
CROWD = 150  # at least so many requests, of a few classes at one node
CROWD_S = 0.25  # within which a crowd arrives
QUIET_S = 4.0  # after healing: some crowds arrive at the healed cluster


def make_wide_plan(seed: int) -> EnginePlan:
    plan = make_plan(seed)
    chance = SeededRandom(seed).fork("wide")
    nodes = plan.group.names[:2]  # so that some requests are redirected to the other nodes
    arrivals = list(plan.arrivals)
    for _ in range(CROWDS):
        at, node = chance.between(1.0, plan.lasts + QUIET_S), chance.choice(nodes)
        names = [chance.choice(NAMES) for _ in range(3)]
        for _ in range(CROWD + chance.below(CROWD)):
            cost = chance.choice(SIZES)
            hangs_up = chance.exponential(0.1) + 0.001 if chance.hits(0.1) else 0.0
            arrivals.append(Arrival(at + chance.between(0, CROWD_S), node, chance.choice(names), cost, cost, hangs_up))
    return msgspec.structs.replace(
        plan,
        capacities={name: WIDER * bps for name, bps in plan.capacities.items()},
        arrivals=tuple(sorted(arrivals, key=lambda one: one.at)),
        reports=tuple(msgspec.structs.replace(one, capacity_bps=WIDER * one.capacity_bps) for one in plan.reports),
    )
