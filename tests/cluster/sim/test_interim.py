"""The interim service in the simulator: fixed seeds, mutants, and the outcomes of its golden scenarios."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

import pytest

from cluster.sim.explore import SeedTask
from cluster.sim.interim_mutant_catalogue import INTERIM_MUTANTS
from cluster.sim.plan import make_plan
from cluster.sim.real_stack import factory_of, run_task
from cluster.sim.stories import narrate_story
from tests.support.mutants import assert_a_seed_catches

if TYPE_CHECKING:
    from cluster.sim.journal import Journal
    from cluster.sim.mutation import Mutant
    from cluster.stack import Process

SEEDS = range(32)
PARTS = 4
MUTANT_SEEDS = 12
FAILED_ONCE = (
    1160,  # the specification forgot a view that an isolated process was still in
    2086,  # the total order did not know a snapshot that was on the disk only
)

# Clauses and events that the seeds must reach; otherwise they test the wrong things.
HAVE_TO_OCCUR = (
    "IADS: refresh: without a state transfer",
    "IADS: refresh: after a state transfer",
    "IADS: view: it interrupts a state transfer",
    "AO: an operation is applied because its view ends",
    "AO: do: all replicas apply the operations of a view in one order",
    "EO_FIFO_DS: load: the replica has what it applied and merged before the crash",
    "INTERIM-LIVENESS: 10.1.1: no refresh_p follows the final one",
    "Ambush at InterimView",
    "Ambush at InterimRefresh",
)

met: Counter[str] = Counter()


def task(seed: int) -> SeedTask:
    return SeedTask(seed, 3, 7, interim=True)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_fixed_seeds(part: int) -> None:
    for seed in (*SEEDS[part::PARTS], *FAILED_ONCE[part::PARTS]):
        outcome = run_task(task(seed))
        assert outcome.failure is None, outcome.failure.line(seed, task(seed).options) + "\n" + outcome.failure.text
        met.update(outcome.sometimes)
        met.update(outcome.clauses)
    met["parts"] += 1


@pytest.mark.long
def test_the_faults_took_effect() -> None:
    if met["parts"] < PARTS:
        pytest.skip("only some of the seeds were run")
    assert [what for what in HAVE_TO_OCCUR if not met[what]] == []


@pytest.mark.long
@pytest.mark.parametrize("mutant", INTERIM_MUTANTS, ids=lambda mutant: f"{mutant.layer}: {mutant.name}")
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    assert_a_seed_catches(mutant, lambda seed: run_task(task(seed)), MUTANT_SEEDS)


def test_there_are_enough_mutants() -> None:
    assert len(INTERIM_MUTANTS) >= 12
    assert {mutant.module.rpartition(".")[2] for mutant in INTERIM_MUTANTS} == {
        "replica", "endpoint_fork", "state_transfer",
    }  # fmt: skip


def test_the_service_does_not_change_the_other_parts_of_a_plan() -> None:
    with_service, without = make_plan(5, interim=True), make_plan(5)
    assert without.operations == ()
    assert with_service.operations
    assert with_service.submissions == without.submissions
    assert with_service.delays == without.delays


@pytest.mark.parametrize(
    ("name", "nodes", "operations"),
    [
        ("interim-operation", "abc", {b"x"}),
        ("interim-partition", "abcde", {b"before", b"of three", b"of two", b"after"}),
        ("interim-interrupted-merge", "abcd", {b"x", b"y", b"z", b"during the merge"}),
        ("interim-restart", "abc", {b"x", b"y"}),
    ],
)
def test_the_outcomes_of_the_stories(name: str, nodes: str, operations: set[bytes]) -> None:
    world = narrate_story(name, factory_of(name), lambda _line: None)
    for node in nodes:
        interim = cast("Process", world.nodes[node].process).interim
        assert interim is not None
        assert cast("Journal", interim.obj).bodies == operations
        assert interim.mode == "normal"
