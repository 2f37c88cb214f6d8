"""Every mutant of the pools of upstream servers is caught, by the seed that it names or by a test of its situation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from cluster.sim.mutant_hunt import hunt
from qosweb.engine.sim.run import play
from qosweb.engine.sim.slot_mutants import SLOT_MUTANTS
from qosweb.engine.sim.slot_plan import make_slot_plan
from tests.engine import test_slots
from tests.engine.sim import test_slot_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.sim.mutation import Mutant

pytestmark = pytest.mark.long

SEEDS_MAX = 8
NOTICED_BY: dict[str, Callable[[], None]] = {
    "requests are charged, not slot time":
        partial(test_slots.test_shares_of_slot_time_hold_whatever_the_classes_ask_for, 8),
    "slots that nodes may have taken are granted": partial(test_slot_limits.hold_the_limit_in_bursts, 30),
}  # fmt: skip


@pytest.mark.parametrize(
    "mutant", [one for one in SLOT_MUTANTS if one.name not in NOTICED_BY], ids=lambda one: one.name
)
def test_mutant_is_caught_by_a_seed(mutant: Mutant) -> None:
    seeds = range(mutant.shown_by, mutant.shown_by + SEEDS_MAX)
    caught = hunt(mutant, seeds, lambda seed: play(make_slot_plan(seed)))
    assert caught.by, f"no judge noticed that {mutant.wrong}"


@pytest.mark.parametrize("mutant", [one for one in SLOT_MUTANTS if one.name in NOTICED_BY], ids=lambda one: one.name)
def test_mutant_is_caught_by_a_test(mutant: Mutant) -> None:
    undo = mutant.apply()
    try:
        with pytest.raises(AssertionError):
            NOTICED_BY[mutant.name]()
    finally:
        undo()
