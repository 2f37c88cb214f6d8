"""Exhaustive partitions of three nodes at every message boundary of a merge: all nodes keep one history.

Enumerated, not sampled: the world is copied after every event that had an effect, and each copy is partitioned in each
of the four ways in which three nodes can be.
"""

from __future__ import annotations

from copy import deepcopy

import pytest

from cluster.settings import Settings
from cluster.sim.spec_judge import Specifications
from cluster.sim.world import World
from cluster.stack import Process

WAYS = (("a", "bc"), ("b", "ac"), ("c", "ab"), ("a", "b", "c"))
SETTINGS = Settings(heartbeat=0.2, suspect_min=0.5, suspect_max=0.5, retry=0.2, snapshot_every=12)


def merging(order: str) -> World:
    """Three nodes, one of which was away while the others continued, when they can communicate again."""
    judge = Specifications("a")
    settings = Settings(**{name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__} | {"order": order})
    world = World(Process, settings=settings, watcher=judge)
    judge.watch(world)
    world.start("abc").broadcast("c", b"1").run(1.0)
    world.partition("ab", "c").broadcast("c", b"2").run(1.5)
    return world.broadcast("a", b"3").broadcast("b", b"4").run(0.5).heal()


def boundaries(world: World) -> list[World]:
    """The world after every event that had an effect, until all have established the view of all three."""
    found: list[World] = []
    while not world.has_primary("abc"):
        before = (world.steps, world.frames)
        world.events.step()
        if (world.steps, world.frames) != before:
            found.append(deepcopy(world))
    return found


@pytest.mark.parametrize("order", ["atop", "sequencer"])
def test_a_partition_at_every_boundary_leaves_one_history(order: str) -> None:
    worlds = boundaries(merging(order))
    assert len(worlds) > 20
    for world in worlds:
        for way in WAYS:
            copy = deepcopy(world)
            copy.partition(*way).broadcast("b", b"5").run(1.2)
            copy.heal().run_until(lambda copy=copy: copy.has_primary("abc"), within=10.0)  # type: ignore[misc]
            copy.run(0.5)
            assert sorted(copy.delivered("a")) == [b"1", b"2", b"3", b"4", b"5"]
            assert copy.delivered("a") == copy.delivered("b") == copy.delivered("c")
