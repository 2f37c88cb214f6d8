"""The multicast transport in its simulator: fixed seeds, mutants, crashes of the coordinator at every boundary."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from cluster.sim.bulk.mutant_catalogue import BULK_MUTANTS
from cluster.sim.bulk.run import play, run_bulk_seed
from cluster.sim.bulk.world import RATE_MIN, BulkWorld
from tests.cluster.bulk import test_coordinator
from tests.support.mutants import assert_a_seed_catches, assert_a_test_catches

if TYPE_CHECKING:
    from cluster.sim.mutation import Mutant
    from cluster.sim.run import RunResult

SEEDS = range(60)
# 1954: a restarted member waited for room behind a message that waited for its vote
# 3000000: a member that did not know the end of an accepted message stopped asking for it
# 5000086: an acceptance that was ordered late counted a member that had restarted without the message
# 671: a member that joined again missed the only packet that told what became of its message
# 310058: that a member has a message arrived late, when it had restarted without it
FAILED_ONCE = (671, 1954, 310_058, 3_000_000, 5_000_086)
PARTS = 2
MUTANT_SEEDS = 3
LONG_S = 60.0  # virtual
REPAIRED_S = 10.0  # virtual; at eight packets per heartbeat, 2,000 packets take five seconds
JOINED_S = 0.5  # after this time all processes are members, without faults
BOUNDARIES_MIN = 40  # of each kind in the enumerated run, at least

# Faults and events that the seeds must reach; otherwise they test the wrong things.
HAVE_TO_OCCUR = (
    "a packet was lost",
    "a packet was duplicated",
    "the network was partitioned",
    "the coordinator crashed",
    "a producer crashed with a message",
    "a producer crashed when it got a token",
    "a producer left when its message was accepted",
    "a process restarted",
    "a process joined",
    "a process left",
    "a process founded",
    "a process was given the state",
    "a member fell behind",
    "a NAK was denied",
    "two tokens at a time",
    "an entry was ordered late",
    "t_cur was raised",
    "t_cur was lowered",
    "a message was accepted",
    "a message was rejected",
    "a message was unknown",
)

# Mutants that fewer than one seed in a thousand shows.
NOTICED_BY = {
    "votes of an earlier view count": test_coordinator.test_votes_do_not_survive_a_change_of_the_view,
}

met: Counter[str] = Counter()


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_fixed_seeds(part: int) -> None:
    for seed in (*SEEDS[part::PARTS], *FAILED_ONCE[part::PARTS]):
        outcome = run_bulk_seed(seed)
        assert outcome.failure is None, outcome.failure.line(seed, " --bulk") + "\n" + outcome.failure.text
        met.update(outcome.sometimes)
    met["parts"] += 1


@pytest.mark.long
def test_the_faults_took_effect() -> None:
    if met["parts"] < PARTS:
        pytest.skip("only some of the seeds were run")
    assert [what for what in HAVE_TO_OCCUR if not met[what]] == []


def run_with_coordinator_crash(boundary: str, number: int, *, with_state: bool) -> tuple[RunResult, bool]:
    """Three members send. The coordinator crashes at a boundary between two messages, and restarts.

    It crashes instead of sending its packet `number`, or when it has handled the packet or ordered entry `number`,
    before it sends anything. Also returns whether the coordinator got that far.
    """
    world = BulkWorld(1, "abc", with_state=with_state)
    world.events.run_until(JOINED_S)
    setattr(world.nodes["a"], boundary, number)
    for name in world.nodes:
        world.send(name, 3)
    world.events.at(1.5, world.restart, "a")
    result = play(1, world, 2.0)
    return result, "the coordinator crashed" in world.sometimes


@pytest.mark.parametrize("boundary", ["sends_left", "inputs_left"])
@pytest.mark.parametrize("with_state", [False, True])
def test_the_coordinator_crashes_at_every_message_boundary(boundary: str, with_state: bool) -> None:
    number, has_crashed = 0, True
    while has_crashed:
        outcome, has_crashed = run_with_coordinator_crash(boundary, number, with_state=with_state)
        assert outcome.failure is None, f"{boundary} {number}: {outcome.failure.text}"
        number += 1
    assert number > BOUNDARIES_MIN


def test_a_long_lossy_transfer_reaches_all() -> None:
    """Seven receivers join again only if they must: each of them sends many NAKs that are answered."""
    world = BulkWorld(0, "abcdefgh", loss=0.05)
    world.events.handled_max *= 4
    for node in world.nodes.values():
        assert node.process is not None
        node.process.context.room = 2048
    world.events.run_until(1.0)
    world.send("a", 4000, 0.0)
    while not world.nodes["a"].outcomes:
        world.events.run_until(world.now + 0.1)
        assert world.now < LONG_S
    world.come_to_rest()
    assert "a member fell behind" not in world.sometimes
    number = next(iter(world.spec.sent))
    assert [member for member, history in world.spec.histories.items() if number not in history.delivered] == []


@pytest.mark.parametrize("seed", range(2))
def test_a_member_that_missed_most_of_a_message_is_repaired_without_its_producer(seed: int) -> None:
    world = BulkWorld(seed, "abcd", loss=0.05)
    for node in world.nodes.values():
        assert node.process is not None
        node.process.context.room = 2048
    world.events.run_until(1.0)
    world.leaver = "d"
    world.send("d", 2000, RATE_MIN)
    world.events.run_until(1.2)
    world.split([{"b"}, set("acd")])
    while "a producer left when its message was accepted" not in world.sometimes:
        world.events.run_until(world.now + 0.05)
        assert world.now < LONG_S
    world.heal()
    (number,) = world.spec.sent
    began = world.now
    while number not in world.spec.histories[world.nodes["b"].id].delivered:
        world.events.run_until(world.now + 0.01)
        assert world.now < began + REPAIRED_S


@pytest.mark.long
@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in BULK_MUTANTS if not mutant.equivalent],
    ids=lambda mutant: f"{mutant.layer}: {mutant.name}",
)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    if mutant.name in NOTICED_BY:
        assert_a_test_catches(mutant, NOTICED_BY[mutant.name])
    else:
        assert_a_seed_catches(mutant, run_bulk_seed, MUTANT_SEEDS)


def test_a_run_is_a_function_of_its_seed() -> None:
    first: list[str] = []
    again: list[str] = []
    run_bulk_seed(3, first.append)
    run_bulk_seed(3, again.append)
    assert first == again
    assert first
