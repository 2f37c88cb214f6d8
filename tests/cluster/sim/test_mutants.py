"""Every wrong version of a layer in the catalogue is noticed, in a seed that is known to show it or soon after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.sim.catalogue import MUTANTS
from cluster.sim.explore import Task
from cluster.sim.mutants import hunt
from cluster.sim.real import run_task

if TYPE_CHECKING:
    from cluster.sim.mutation import Mutant

WRONG = [mutant for mutant in MUTANTS if not mutant.equivalent]
SEEDS_MAX = 30

# Where to begin: a seed that showed it. Without one here, seed 0 did.
SHOWN_BY: dict[str, int] = {
    "a break loses what was in flight": 43,
    "a stream goes on after a loss": 3,
    "the old life's messages for the new one": 1,
    "acknowledged before it was received": 5,
    "what was kept aside is lost": 74,
    "nobody is pulled up": 109,
    "the epoch is not on disk": 4,
    "a forwarded message from any view": 123,
    "dropped before everybody has it": 1,
    "everybody moves along": 5,
    "who has moved on is forgotten": 771021,
    "a distribution of one's own": 55,
    "places in the order of arrival": 2,
    "accept half instead of a majority": 1,
    "a third is enough": 1,
    "forget to wait for one info": 2,
    "the attempt is not on disk": 1,
    "the log is not on disk": 1,
    "the new order is not on disk": 1,
    "batches counted as one": 4,
    "the snapshot does not move the report": 1,
    "a snapshot without its labels": 15,
    "truncated too far": 1,
    "rest in nobody's order": 1,
    "no end for what a snapshot brought": 15,
    "checkpoints differ": 4,
}


@pytest.mark.parametrize("mutant", WRONG, ids=lambda mutant: f"{mutant.layer}: {mutant.name}")
def test_it_is_noticed(mutant: Mutant) -> None:
    first = SHOWN_BY.get(mutant.name, 0)
    caught = hunt(mutant, range(first, first + SEEDS_MAX), lambda seed: run_task(Task(seed, 3, 7)))
    assert caught.by, f"nobody noticed that {mutant.wrong}"


def test_there_are_enough_of_them_in_every_layer() -> None:
    layers = {mutant.layer for mutant in WRONG}
    assert len(WRONG) >= 40
    assert layers >= {"links", "membership", "within_view", "virtual_synchrony", "view_order", "atop", "primary",
                      "total_order", "summaries", "replica"}  # fmt: skip


def test_those_that_are_not_hunted_still_fit_the_sources() -> None:
    for mutant in MUTANTS:
        mutant.apply()()
