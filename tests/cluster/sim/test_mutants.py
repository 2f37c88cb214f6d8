"""Every mutant in the catalogue is caught, at a seed that is known to catch it or soon after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.sim.explore import SeedTask
from cluster.sim.mutant_catalogue import MUTANTS
from cluster.sim.real_stack import run_task
from tests.cluster.test_stack import layers_of_the_stack
from tests.support.mutants import assert_a_seed_catches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.sim.mutation import Mutant

pytestmark = pytest.mark.long

WRONG = [mutant for mutant in MUTANTS if not mutant.equivalent]
SEEDS_MAX = 30


@pytest.mark.parametrize("mutant", WRONG, ids=lambda mutant: f"{mutant.layer}: {mutant.name}")
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    assert_a_seed_catches(mutant, lambda seed: run_task(SeedTask(seed, 3, 7)), SEEDS_MAX)


def test_every_layer_has_enough_mutants() -> None:
    assert len(WRONG) >= 40
    assert {mutant.module for mutant in WRONG} >= set(layers()) | {"cluster.state_exchange", "cluster.submission_index"}


def layers() -> Iterator[str]:
    """The modules of the stack and of the automata that they inherit from."""
    for layer in layers_of_the_stack():
        yield from (parent.__module__ for parent in layer.__mro__ if parent is not object)


def test_every_layer_has_mutants() -> None:
    assert set(layers()) == {
        f"cluster.{name}" for name in ("links", "detector", "membership", "fifo_multicast", "virtual_synchrony",
        "endpoint", "view_order", "adaptive_order", "sequencer", "primary", "total_order", "replica")
    }  # fmt: skip


def test_equivalent_mutants_still_apply() -> None:
    for mutant in MUTANTS:
        mutant.apply()()
