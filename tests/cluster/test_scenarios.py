"""Scenarios of the whole stack in the simulator, checked by all specifications."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from cluster.primary import is_quorum
from cluster.settings import DEFAULT, Settings
from cluster.sim.mutant_catalogue import MUTANTS
from cluster.sim.run import live
from cluster.sim.seeded_random import SeededRandom as Seeded
from cluster.sim.spec_judge import Specifications
from cluster.sim.world import World
from cluster.specs.spec import Violation
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.layer import RandomSource


@contextmanager
def judged(settings: Settings, seed: int = 0) -> Iterator[World]:
    """A world that all specifications check, up to its end."""
    judge = Specifications("a")
    world = World(Process, seed=seed, settings=settings, watcher=judge)
    judge.watch(world)
    yield world
    judge.finish(world, live(world))
    assert judge.clauses()["TO: deliver"] > 0 or not any(world.delivered(name) for name in world.nodes)


@pytest.fixture
def world() -> Iterator[World]:
    with judged(Settings(snapshot_every=20)) as world:
        yield world


def test_all_members_deliver_a_broadcast(world: World) -> None:
    world.start("abc").broadcast("b", b"x").settle()
    assert world.delivered("a") == world.delivered("b") == world.delivered("c") == [b"x"]


def test_the_minority_side_never_delivers(world: World) -> None:
    world.start("abcde").partition("abc", "de")
    world.broadcast("a", b"x").broadcast("d", b"y").settle()
    assert world.delivered("b") == [b"x"]
    assert world.delivered("e") == []
    assert world.primary("e") is None


def test_an_isolated_member_confirms_nothing(world: World) -> None:
    world.start("abc").settle().partition("ab", "c").broadcast("c", b"alone").run(0.2)
    assert world.primary("c") is not None  # it has not detected the partition yet
    assert world.delivered("c") == []
    world.settle()
    assert world.primary("c") is None
    world.heal().settle()
    assert world.delivered("a") == world.delivered("c") == [b"alone"]


def test_a_second_connection_costs_no_view_and_no_message(world: World) -> None:
    """Both sides dialed. Frames lost with the first connection are sent again on the second."""
    world.start("abc").settle()
    view = world.primary("a")
    for i in range(20):
        world.broadcast("abc"[i % 3], b"%d" % i).dial_again(*("ab", "bc", "ca")[i % 3]).run(0.001)
    world.settle()
    assert world.sometimes["frames lost with a connection"] > 0
    assert world.primary("a") == world.primary("b") == world.primary("c") == view
    assert sorted(map(int, world.delivered("a"))) == list(range(20))
    assert world.delivered("a") == world.delivered("b") == world.delivered("c")


def test_five_members_fail_one_by_one_and_two_continue(world: World) -> None:
    """A static majority of five would have stopped at two."""
    world.start("abcde").settle()
    for name in "cde":
        world.crash(name).settle()
    world.broadcast("b", b"two are left").settle()
    assert world.delivered("a") == world.delivered("b") == [b"two are left"]


def test_the_lower_ranked_of_two_continues_alone(world: World) -> None:
    world.start("abc").settle().crash("c").settle().crash("b").settle()
    world.broadcast("a", b"one is left").settle()
    assert world.delivered("a") == [b"one is left"]


def test_the_higher_ranked_of_two_waits(world: World) -> None:
    world.start("abc").settle().crash("c").settle().crash("a").settle()
    world.broadcast("b", b"x").settle()
    assert world.delivered("b") == []
    assert world.primary("b") is None
    world.restart("a").settle()
    assert world.delivered("b") == world.delivered("a") == [b"x"]


def test_an_even_split_continues_on_the_side_of_the_lowest_rank(world: World) -> None:
    world.start("abcd").settle().partition("ab", "cd").settle()
    world.broadcast("b", b"x").broadcast("c", b"y").settle()
    assert world.delivered("a") == [b"x"]
    assert world.delivered("d") == []
    world.heal().settle()
    assert world.delivered("a") == world.delivered("d") == [b"x", b"y"]


def test_power_fails_everywhere_and_nothing_confirmed_is_lost(world: World) -> None:
    world.start("abc").settle()
    for number in range(50):
        world.broadcast("abc"[number % 3], b"%d" % number)
    world.run(0.005)
    before = max((world.delivered(name)[:] for name in "abc"), key=len)
    for name in "abc":
        world.crash(name)
    for name in "cba":
        world.restart(name)
    world.settle()
    after = world.delivered("a")
    assert before
    assert after[: len(before)] == before
    assert after == world.delivered("b") == world.delivered("c")


def _power_fails_before_the_write(world: World) -> None:
    """In a view of b and c, c acknowledges an entry of b while the disk of b is busy. Then the power of both fails.

    b has a quorum of that view together with a, without c. So entries that b has not written may never have been in the
    order.
    """
    world.start("abc").settle().crash("a").settle()
    world.nodes["b"].write_time = 60.0
    world.broadcast("b", b"x").run(0.1)
    assert world.nodes["c"].disk.read().log.end > world.nodes["b"].disk.read().log.end
    world.crash("b", silent=True).crash("c", silent=True)
    world.nodes["b"].write_time = 0.0
    world.restart("a").restart("b").settle()


def test_a_state_machine_sees_only_entries_on_the_local_disk(world: World) -> None:
    _power_fails_before_the_write(world)
    world.broadcast("a", b"y").settle()
    assert world.delivered("a") == world.delivered("b") == [b"y"]
    world.restart("c").settle()
    assert world.delivered("a") == world.delivered("b") == world.delivered("c") == [b"y", b"x"]


def test_applying_an_entry_before_its_write_is_detected() -> None:
    undo = next(mutant for mutant in MUTANTS if mutant.name == "applied before it is on disk").apply()
    try:
        with pytest.raises(Violation, match="the entry is on the disk of p"), judged(DEFAULT) as world:
            _power_fails_before_the_write(world)
    finally:
        undo()


@pytest.mark.parametrize("busy_s", [0.0, 0.01, 0.3])
def test_a_snapshot_is_on_disk_before_it_is_restored(world: World, busy_s: float) -> None:
    world.start("abc").settle().crash("c").settle()
    for number in range(200):
        world.broadcast("a", b"%d" % number)
    world.nodes["c"].write_time = busy_s
    world.settle().upon("CatchUp", lambda: world.crash("c", silent=True)).restart("c").settle()
    image = world.nodes["c"].disk.read()
    assert image.snapshot is not None
    assert image.snapshot.position > 150
    world.nodes["c"].write_time = 0.0
    world.restart("c").settle()
    assert world.delivered("c") == world.delivered("a")


def test_after_a_power_failure_four_of_five_go_on_without_the_founder(world: World) -> None:
    """Registered views are on every disk, so the founder's disk is not needed to find the last view."""
    world.start("abcde").broadcast("a", b"x").settle()
    for name in "abcde":
        world.crash(name)
    for name in "bcde":
        world.restart(name)
    world.broadcast("e", b"y").settle()
    assert world.delivered("b") == world.delivered("e") == [b"x", b"y"]


def test_a_node_without_its_disk_returns_as_a_new_process(world: World) -> None:
    world.start("abc").broadcast("a", b"x").settle().lose_disk("c").settle()
    world.restart("c").settle()
    primary = world.primary("c")
    assert world.delivered("c") == [b"x"]
    assert primary is not None
    assert str(primary.members[-1]) == "c.1"


def test_a_lagging_member_gets_a_snapshot(world: World) -> None:
    world.start("abc").settle().crash("c").settle()
    for number in range(200):
        world.broadcast("a", b"%d" % number)
    world.settle().restart("c").settle()
    assert world.delivered("c") == world.delivered("a")
    assert len(world.delivered("c")) == 200


def test_a_leaving_member_is_excluded_after_its_last_entries(world: World) -> None:
    world.start("abc").settle().broadcast("c", b"good-bye").leave("c").run(0.5)
    assert world.delivered("a") == [b"good-bye"]
    primary = world.primary("a")
    assert primary is not None
    assert [member.name for member in primary.members] == ["a", "b"]


@pytest.mark.parametrize("seed", range(12))
def test_as_soon_as_the_rules_allow_a_primary_view_there_is_one(seed: int) -> None:
    """Partitions follow each other at random. At rest, a side has a primary view exactly if the rules allow it.

    Two sides never have one at the same time.
    """
    chance = Seeded(seed)
    names = "abcdef"[: 3 + seed % 4]
    with judged(DEFAULT, seed) as world:
        world.start(names).settle()
        for _ in range(6):
            world.partition(*_sides(chance, names)).settle()
            if chance.random() < 0.5:
                world.broadcast(names[chance.below(len(names))], b"x").settle()
            primaries = {world.primary(name) for name in names} - {None}
            assert len(primaries) <= 1
            for side in {_side(world, name) for name in names}:
                assert all((world.primary(name) is not None) == _may_decide(world, side) for name in side)
        world.heal().settle()
        assert len({world.primary(name) for name in names}) == 1


def test_the_specifications_detect_what_a_scenario_does_not_assert() -> None:
    undo = next(mutant for mutant in MUTANTS if mutant.name == "an outdated attempt stays current").apply()
    try:
        with (
            pytest.raises(Violation, match="the view reported to p is cur and client-cur"),
            judged(DEFAULT) as world,
        ):
            world.start("abc").settle().partition("ab", "c").settle()
    finally:
        undo()


def _sides(chance: RandomSource, names: str) -> list[str]:
    sides = ["", "", ""]
    for name in names:
        sides[int(chance.random() * 3)] += name
    return [side for side in sides if side]


def _side(world: World, name: str) -> str:
    process = world.nodes[name].process
    assert isinstance(process, Process)
    return "".join(member.name for member in process.endpoint.current_view.members)


def _may_decide(world: World, side: str) -> bool:
    """The rule of the primary views, from the disks: the last active view, and the views attempted after it.

    For a side with a primary view this is its own view by now; for another side it shows that it may not decide.
    """
    images = [world.nodes[name].disk.read() for name in side]
    members = [world.nodes[name].pid for name in side]
    act = max((image.act for image in images if image.act is not None), key=lambda view: view.id)
    attempted = [view for image in images for view in image.amb if view.id > act.id]
    return all(list(view.members) == members or is_quorum(members, view) for view in [act, *attempted])
