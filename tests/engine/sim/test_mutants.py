"""Every wrong version of the engine in the catalogue is noticed, by a seed that is known to show it or soon after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.sim.mutants import hunt
from qosweb.engine.sim.catalogue import MUTANTS
from qosweb.engine.sim.run import run_seed

if TYPE_CHECKING:
    from cluster.sim.mutation import Mutant

SEEDS_MAX = 8

# Where to begin: a seed that showed it. Without one here, seed 0 did.
SHOWN_BY: dict[str, int] = {}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_is_noticed(mutant: Mutant) -> None:
    first = SHOWN_BY.get(mutant.name, 0)
    caught = hunt(mutant, range(first, first + SEEDS_MAX), run_seed)
    assert caught.by, f"nobody noticed that {mutant.wrong}"


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 12
