"""Operator recovery after the loss of a majority: which processes continue, and with which entries."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from cluster.durable import Image, founding_image
from cluster.names import ProcessId
from cluster.recovery import EPOCH_LEAP, CannotRecover, RecoveryPlan, follower_records, plan_recovery
from cluster.settings import Settings
from cluster.sim.world import World
from cluster.stack import Process


@pytest.fixture
def world() -> World:
    return World(Process, coded=True)


def recover(world: World, names: str) -> RecoveryPlan:
    """Does what `python -m cluster recover` does, with the disks of these stopped nodes."""
    disks = {world.nodes[name].pid: world.nodes[name].disk for name in names}
    made = plan_recovery({process: disk.read() for process, disk in disks.items()})
    for process, disk in disks.items():
        for record in made.records if process == made.leader else follower_records(made.view):
            disk.write(record)
    return made


def lose(world: World, names: str) -> World:
    for name in names:
        world.crash(name)
    return world


def test_two_of_five_go_on_and_a_new_one_joins(world: World) -> None:
    world.start("abcde").broadcast("a", b"1").broadcast("e", b"2").settle()
    lose(world, "cde").broadcast("a", b"in doubt").run(30.0)
    assert world.primary("a") is None
    assert world.primary("b") is None
    lose(world, "ab")
    made = recover(world, "ab")
    assert [process.name for process in made.given_up] == ["c", "d", "e"]
    world.restart("a").restart("b").run(10.0)
    assert world.has_primary("ab")
    view = world.primary("a")
    assert view is not None
    assert view.id.epoch > EPOCH_LEAP  # visible in every view from now on
    world.broadcast("b", b"3").settle()
    assert world.delivered("a") == world.delivered("b")
    assert {*world.delivered("a")} >= {b"1", b"2", b"3"}
    world.join("f", via="a").settle()
    assert world.has_primary("abf")
    assert world.delivered("f") == world.delivered("a")


def test_one_of_three_continues_alone_with_its_labelled_entries(world: World) -> None:
    world.start("abc").broadcast("a", b"1").settle()
    world.partition("a", "bc").broadcast("a", b"2").run(0.01)  # labelled and on its disk, but not sent to any member
    lose(world, "abc")
    assert world.nodes["a"].disk.read().labelled or world.nodes["a"].disk.read().log.end > 2
    recover(world, "a")
    world.restart("a").run(10.0)
    assert world.has_primary("a")
    assert world.delivered("a") == [b"1", b"2"]


def test_the_disk_with_the_latest_order_leads(world: World) -> None:
    world.start("abcde").broadcast("a", b"1").settle()
    world.partition("a", "bcde").run(5.0).broadcast("c", b"2").settle()
    lose(world, "abcde").heal()
    assert recover(world, "ab").leader.name == "b"
    world.restart("a").run(20.0)
    assert world.primary("a") is None  # it follows, and cannot continue without the leader
    world.restart("b").run(10.0)
    assert world.has_primary("ab")
    assert world.delivered("a") == world.delivered("b") == [b"1", b"2"]


def test_an_abandoned_minority_yields_to_the_recovered_group(world: World) -> None:
    """Less than a quorum of the old group, with the same cluster id: they yield to the recovered group."""
    world.start("abcde").broadcast("a", b"1").settle()
    lose(world, "cde").run(5.0)
    lose(world, "ab")
    recover(world, "ab")
    world.restart("a").restart("b").run(10.0).broadcast("a", b"2").settle()
    for name in "de":
        world.restart(name)
    world.settle()
    assert world.has_primary("abde")
    for name in "de":
        assert world.delivered(name) == [b"1", b"2"]


def test_an_abandoned_quorum_continues_as_the_old_group(world: World) -> None:
    """Not guaranteed, and impossible to guarantee: abandoned processes know nothing of a recovery.

    So the operator must know that they are gone, and the two groups have different cluster ids.
    """
    world.start("abcdef").broadcast("a", b"1").crash("f").settle()
    lose(world, "abcde")
    recover(world, "a")
    world.partition("a", "bcde")
    for name in "abcde":
        world.restart(name)
    world.run(20.0)
    assert world.has_primary("a")
    assert world.has_primary("bcde")


def test_a_group_can_be_recovered_again(world: World) -> None:
    world.start("abc").broadcast("a", b"1").settle()
    lose(world, "abc")
    recover(world, "b")
    world.restart("b").run(5.0).join("d", via="b").join("e", via="b").broadcast("e", b"2").settle()
    assert world.has_primary("bde")
    lose(world, "bde")
    recover(world, "d")
    world.restart("d").run(5.0)
    assert world.has_primary("d")
    assert world.delivered("d") == [b"1", b"2"]


def test_a_quorum_needs_no_recovery(world: World) -> None:
    world.start("abc").broadcast("a", b"1").settle()
    lose(world, "abc")
    with pytest.raises(CannotRecover, match="start their nodes, and they form a primary view by themselves"):
        recover(world, "ac")


def test_a_disk_that_was_never_in_a_group_cannot_be_recovered() -> None:
    with pytest.raises(CannotRecover, match="none of these disks knows a primary view"):
        plan_recovery({ProcessId("a"): Image()})
    told = Image()
    told.act = founding_image(ProcessId("b")).act
    with pytest.raises(CannotRecover, match="none of the disks has the order of the group"):
        plan_recovery({ProcessId("a"): told})


@pytest.mark.parametrize("seed", range(20))
def test_entries_delivered_on_a_remaining_disk_are_never_lost(seed: int) -> None:
    chance = random.Random(seed)
    world = World(Process, seed=seed, coded=True, settings=Settings(snapshot_every=7)).start("abcde")
    for i in range(40):
        world.broadcast(chance.choice("abcde"), b"%d" % i)
        world.run(chance.choice((0.0, 0.002, 0.01, 1.0)))
        if i % 5 == 0:
            names = "".join(chance.sample("abcde", 5))
            cut = chance.randint(1, 5)
            world.partition(names[:cut], names[cut:]).run(chance.choice((0.0, 0.3, 2.0)))
        if i % 7 == 0:
            name = chance.choice("abcde")
            world.crash(name).run(chance.random()).restart(name)
    left = "".join(sorted(chance.sample("abcde", chance.randint(1, 3))))
    before = max((list(world.delivered(name)) for name in left), key=len)
    lose(world, "abcde").heal()
    with suppress(CannotRecover):  # if a quorum remains, no recovery is needed
        recover(world, left)
    for name in left:
        world.restart(name)
    world.run(10.0).broadcast(left[0], b"after").settle()
    assert world.has_primary(left)
    for name in left:
        assert world.delivered(name)[: len(before)] == before
        assert world.delivered(name)[-1] == b"after"
        assert len(set(world.delivered(name))) == len(world.delivered(name))
