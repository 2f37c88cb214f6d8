"""The data service in the simulator: fixed seeds, mutants, and the outcomes of its golden scenarios."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from cluster.sim.data.mutant_catalogue import DATA_MUTANTS
from cluster.sim.data.plan import make_data_plan
from cluster.sim.data.run import run_data_task
from cluster.sim.explore import SeedTask
from cluster.sim.plan import make_plan
from cluster.sim.real_stack import factory_of
from cluster.sim.stories import narrate_story
from tests.support.mutants import assert_a_seed_catches

if TYPE_CHECKING:
    from cluster.sim.mutation import Mutant

SEEDS = range(12)
PARTS = 2
MUTANT_SEEDS = 12

# Clauses and events that the seeds must reach; otherwise they test the wrong things.
HAVE_TO_OCCUR = (
    "DATA-S: query: not in the latest state",
    "DATA-S: update: its client has left",
    "DATA-D: reply: ok, if the member of c has applied the update",
    "DATA-SHARING: gprcv: some members are not able",
    "DATA-SHARING: gpsnd: again, in a new view",
    "DATA-SHARING: gpsnd: the member that is named can answer",
    "DATA-SHARING: queries are shared evenly",
    "VStoD: I 3: an update that its process has not executed waits there",
    "VStoD: I 5 (d): l >= last(c)",
    "VStoD: outside a primary view, no assigned query waits for updates",
    "a client gives up",
    "a client finds its node down",
    "a query is answered outside a primary view",
)

met: Counter[str] = Counter()


def task(seed: int) -> SeedTask:
    return SeedTask(seed, 3, 5)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_fixed_seeds(part: int) -> None:
    for seed in SEEDS[part::PARTS]:
        outcome = run_data_task(task(seed))
        assert outcome.failure is None, outcome.failure.line(seed, f"{task(seed).options} --data")
        met.update(outcome.sometimes)
        met.update(outcome.clauses)
    met["parts"] += 1


@pytest.mark.long
@pytest.mark.parametrize(
    "seed",
    [
        7101388,  # it still wrote and sent the update that its client had just submitted
        910536,  # it still told the next client that its update was delivered
    ],
)
def test_a_process_that_crashes_when_its_client_is_told_does_nothing_more(seed: int) -> None:
    outcome = run_data_task(SeedTask(seed, 3, 7))
    assert outcome.failure is None, outcome.failure.line(seed, "--data")


@pytest.mark.long
def test_the_faults_took_effect() -> None:
    if met["parts"] < PARTS:
        pytest.skip("only some of the seeds were run")
    assert [what for what in HAVE_TO_OCCUR if not met[what]] == []


@pytest.mark.long
@pytest.mark.parametrize("mutant", DATA_MUTANTS, ids=lambda mutant: f"{mutant.layer}: {mutant.name}")
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    assert_a_seed_catches(mutant, lambda seed: run_data_task(task(seed)), MUTANT_SEEDS)


def test_there_are_enough_mutants() -> None:
    assert len(DATA_MUTANTS) >= 15
    assert {mutant.module.rpartition(".")[2] for mutant in DATA_MUTANTS} >= {"replica", "order_fork"}


def test_the_service_does_not_change_the_network_of_a_plan() -> None:
    with_service, without = make_data_plan(5), make_plan(5)
    assert with_service.steps
    assert with_service.base.delays == without.delays
    assert with_service.base.names == without.names


@pytest.mark.parametrize("name", ["data-query", "data-reissue", "data-minority", "data-merge"])
def test_all_queries_of_the_stories_are_answered(name: str) -> None:
    lines: list[str] = []
    world = narrate_story(name, factory_of(name), lines.append)
    assert not any(node.requested for node in world.nodes.values())
    assert any(" query(" in line for line in lines)
