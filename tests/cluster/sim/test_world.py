"""Scenario methods of the world, with the toy process; a crash leaves what was written and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.actions import Action, Crashed, Deliver, Recovered
from cluster.durable import Appended, Boot
from cluster.entries import pack_bodies
from cluster.names import ProcessId, ViewId
from cluster.run_log import Run
from cluster.sim.disk import SimDisk
from cluster.sim.world import NotReached, World
from tests.cluster.sim.toy import Toy

if TYPE_CHECKING:
    from cluster.messages import Frame


@pytest.fixture
def world() -> World:
    return World(Toy, coded=True)


def test_everybody_delivers_in_one_order(world: World) -> None:
    world.start("abc").broadcast("b", b"x").broadcast("c", b"y").run(5.0)
    assert sorted(world.delivered("a")) == [b"x", b"y"]
    assert world.delivered("a") == world.delivered("b") == world.delivered("c")


def test_a_partitioned_node_delivers_later(world: World) -> None:
    world.start("abc").partition("ab", "c").broadcast("c", b"x").run(5.0)
    assert world.delivered("a") == []
    world.heal().run(10.0)
    assert world.delivered("a") == world.delivered("c") == [b"x"]


def test_a_process_comes_back_with_what_was_on_its_disk(world: World) -> None:
    world.start("ab").broadcast("a", b"x").run(2.0).crash("a").run(1.0)
    assert world.primary("a") is None
    world.restart("a").run(5.0)
    assert world.delivered("a") == [b"x"]
    assert world.has_primary("ab")


def test_a_lost_disk_makes_another_process(world: World) -> None:
    world.start("abc").lose_disk("c").run(1.0).restart("c").run(5.0)
    assert world.nodes["c"].pid == ProcessId("c", 1)
    assert world.has_primary("abc")


def test_a_paused_node_responds_later(world: World) -> None:
    world.start("abc").pause("b").broadcast("b", b"x").run(5.0)
    assert world.delivered("a") == []
    world.resume("b").run(2.0)
    assert world.delivered("a") == [b"x"]


def test_a_silent_crash_is_noticed_late(world: World) -> None:
    world.start("abc").crash("c", silent=True).run(0.5)
    assert ProcessId("c") in world.nodes["a"].connections
    world.run(10.0)
    assert ProcessId("c") not in world.nodes["a"].connections


def test_joining_and_leaving(world: World) -> None:
    world.start("ab").broadcast("b", b"x").join("c").run(5.0)
    assert world.delivered("c") == [b"x"]
    world.leave("c").run(5.0)
    assert world.has_primary("ab")


def test_a_clock_leaps_but_never_goes_back(world: World) -> None:
    world.start("ab")
    node = world.nodes["b"]
    before = node.clock()
    node.jump_clock(100.0)
    assert node.clock() == pytest.approx(before + 100.0)
    node.jump_clock(-50.0)
    stands = node.clock()
    world.run(10.0)
    assert node.clock() == stands
    world.run(50.0)
    assert node.clock() > stands


def test_an_unmet_condition_is_reported(world: World) -> None:
    with pytest.raises(NotReached, match="pigs fly: not within 3 s"):
        world.start("a").run_until(lambda: False, within=3.0, what="pigs fly")


class Seen:
    def __init__(self) -> None:
        self.actions: list[Action] = []

    def action(self, time: float, process: ProcessId, action: Action) -> None:
        assert time >= 0.0
        assert process
        self.actions.append(action)

    def frame(self, time: float, sender: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> None: ...

    def remark(self, time: float, text: str) -> None: ...


def test_a_crash_between_effects_cuts_the_trace_at_the_same_place() -> None:
    """The toy writes an entry, delivers it, and replies: crashed before the write, it has not delivered it either."""
    for effects, delivered in ((0, False), (1, True)):
        seen = Seen()
        world = World(Toy, listener=seen)
        world.start("a").crash_after("a", effects).broadcast("a", b"x").run(1.0)
        assert [type(action) for action in seen.actions].count(Crashed) == 1
        assert any(isinstance(action, Deliver) for action in seen.actions) == delivered
        assert world.sometimes["torn last write"] == (not delivered)
        world.restart("a").run(1.0)
        assert world.delivered("a") == ([b"x"] if delivered else [])
        assert any(isinstance(action, Recovered) for action in seen.actions)


def test_a_disk_hands_out_copies() -> None:
    disk = SimDisk(coded=True)
    disk.write(Boot(3))
    image = disk.read()
    disk.write(Appended(0, Run(ViewId(0, ""), 1, ProcessId("a"), pack_bodies([b"x"]))))
    assert (image.boot, len(image.log)) == (3, 0)
    assert len(disk.read().log) == 1
    disk.lose()
    assert disk.read().boot == 0
