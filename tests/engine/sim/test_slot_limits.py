"""Limits of a shared server without faults: bursts at all nodes of an idle cluster, and a partition under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.settings import Settings
from cluster.sim.faults import Partition
from cluster.sim.network import Delays
from cluster.sim.plan import RunPlan as GroupPlan
from cluster.sim.seeded_random import SeededRandom
from qosweb.engine.local.server_laws import ServerLaws
from qosweb.engine.sim.plan import EnginePlan, SlotArrival
from qosweb.engine.sim.policies import CHANNEL_BPS
from qosweb.engine.sim.run import EngineWorld

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.sim.faults import AnyFault

NODES = "abc"
POOL = (("app", True),)
SERVICE_US = 100_000
NO_ALWAYS = 3  # a policy; no request here is of its always-available class


def arrival(at: float, node: str, name: str) -> SlotArrival:
    return SlotArrival(at, node, name, SERVICE_US, SERVICE_US, 0.0, POOL, fails=False)


def most_in_service(seed: int, slots: int, arrivals: Iterable[SlotArrival], faults: tuple[AnyFault, ...] = ()) -> int:
    """The greatest number in service at the server, at any millisecond."""
    found = sorted(arrivals, key=lambda one: one.at)
    group = GroupPlan(
        seed=seed, names=NODES, first=NODES, settings=Settings(heartbeat=0.25, suspect_min=0.8),
        delays=Delays(base=0.0005, jitter=0.0005, notice_max=0.01), coded=False, lasts=found[-1].at, faults=faults,
        submissions=(),
    )  # fmt: skip
    plan = EnginePlan(
        group, NO_ALWAYS, 0.0, dict.fromkeys(NODES, 4 * CHANNEL_BPS), (), (), (),
        tables=dict.fromkeys(NODES, (POOL,)), slots={"app": slots}, slot_arrivals=tuple(found),
    )  # fmt: skip
    scene = EngineWorld(plan)
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, scene.slot_judge.in_service("app"))

    for ms in range(int(found[-1].at * 1000) + 500):
        scene.world.events.at(ms / 1000, look)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerLaws, "tick", lambda *_, **__: [])  # the limit is set by hand
        scene.play()
    assert scene.world.sometimes["starts at a server"] > 2 * slots
    assert bool(faults) == (scene.slot_judge.looked["slots outside the primary view"] > 0)
    return most


@pytest.mark.parametrize("slots", [6, 30])
def test_bursts_at_all_nodes_exceed_the_limit_by_at_most_one_slot_each(slots: int) -> None:
    hold_the_limit_in_bursts(slots)


def hold_the_limit_in_bursts(slots: int) -> None:
    chance = SeededRandom(slots)
    arrivals = [
        arrival(burst + chance.between(0, 0.001), node, chance.choice(["/a", "/b"]))
        for burst in (1.0, 1.8, 2.6)
        for node in NODES
        for _ in range(slots)
    ]
    assert slots <= most_in_service(1, slots, arrivals) <= slots + len(NODES)


@pytest.mark.parametrize("busy", ["aaac", "abcc"])
def test_both_sides_of_a_partition_stay_within_the_limit(busy: str) -> None:
    slots = 12
    chance = SeededRandom(7)
    arrivals = [arrival(1.0 + number * 0.05 / slots, chance.choice(busy), "/a") for number in range(600)]
    faults = (Partition(at=1.8, lasts=1.5, groups=("ab", "c")),)
    assert slots <= most_in_service(2, slots, arrivals, faults) <= slots + len(NODES)
