"""Overload without faults: checks that every class gets its guaranteed share.

Five classes demand about twice the capacity of three nodes, most of it at one node. Over a window after the first
moments, the share of each class in the bytes that started has to equal its guaranteed share, up to `POINTS`.
Below: run.
"""

from __future__ import annotations

from collections import Counter

from cluster.settings import Settings
from cluster.sim.network import Delays
from cluster.sim.plan import RunPlan as GroupPlan
from cluster.sim.seeded_random import SeededRandom
from qosweb.engine.sim.plan import Arrival, EnginePlan
from qosweb.engine.sim.policies import CHANNEL_BPS, FIVE, SHARES
from qosweb.engine.sim.run import EngineWorld

NODES = "abc"
BEGIN, END = 2.5, 9.5  # seconds of the window
POINTS = 3.0
OVERLOAD = 2.0
SIZES = ((16_384,), (4_096, 16_384), (8_192, 16_384, 32_768))


def make_steady_plan(seed: int, wider: int = 1) -> EnginePlan:
    chance = SeededRandom(seed).fork("steady")
    capacities = {name: wider * CHANNEL_BPS * (2 + chance.below(4)) for name in NODES}
    sizes = chance.choice(SIZES)
    mean = sum(sizes) / len(sizes) / (OVERLOAD * sum(capacities.values()))
    nodes = chance.choice((NODES, "aaab", "aaaaaabc", "a"))
    found: list[Arrival] = []
    time = 0.5
    while time < END:
        time += chance.exponential(mean)
        cost = chance.choice(sizes)
        found.append(Arrival(time, chance.choice(nodes), chance.choice(list(SHARES)), cost, cost, 0.0))
    group = GroupPlan(
        seed=seed, names=NODES, first=NODES, settings=Settings(heartbeat=0.25, suspect_min=0.8),
        delays=Delays(base=0.0005, jitter=0.0005, notice_max=0.01), coded=False, lasts=END, faults=(), submissions=(),
    )  # fmt: skip
    return EnginePlan(group, FIVE, 0.0, capacities, tuple(found), (), ())


def shares_of(seed: int, wider: int = 1) -> dict[str, float]:
    """The share of each class in per cent of all starts in the window. Raises EngineViolation if a judge finds one.

    `wider` multiplies the number of channels and requests.
    """
    scene = EngineWorld(make_steady_plan(seed, wider))
    scene.play()
    got: Counter[str] = Counter()
    for client in scene.clients.all:
        if client.started and BEGIN <= client.started_at < END:
            got[client.arrival.name] += client.arrival.cost
    total = sum(got.values())
    return {name: 100 * got[name] / total for name in SHARES}


def outside_tolerance(shares: dict[str, float]) -> dict[str, float]:
    """Classes whose share is outside the tolerance."""
    return {name: share for name, share in shares.items() if abs(share - SHARES[name]) > POINTS}
