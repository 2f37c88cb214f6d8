"""Every mutant of the pools of upstream servers is caught, by the seed that it names or by a test of its situation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from qosweb.engine.sim.run import play
from qosweb.engine.sim.slot_plan import make_slot_plan
from tests.engine import test_slots
from tests.engine import test_slots_in_a_group as of_a_group
from tests.engine.sim import test_slot_limits
from tests.engine.sim.slot_mutant_catalogue import SLOT_MUTANTS
from tests.support.mutants import assert_a_seed_catches, assert_a_test_catches

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.sim.mutation import Mutant

pytestmark = pytest.mark.long

SEEDS_MAX = 8
NOTICED_BY: dict[str, Callable[[], None]] = {
    "requests are charged, not slot time":
        partial(test_slots.test_shares_of_slot_time_hold_whatever_the_classes_ask_for, 8),
    "slots that nodes may have taken are granted": partial(test_slot_limits.hold_the_limit_in_bursts, 30),
    "other costs than time are ignored":
        partial(test_slots.test_shares_are_measured_in_what_requests_cost, "requests", {"/a": 1000, "/b": 1000}, 0.6),
    "a returned node's part is used before it tells what it has in service":
        of_a_group.test_the_part_of_a_member_that_returns_is_reserved_until_it_has_told_what_it_has_in_service,
    "restated requests are not charged": of_a_group.test_requests_of_a_node_that_returns_are_charged,
    "a newcomer uses all slots":
        of_a_group.test_a_newcomer_uses_one_slot_of_a_shared_server_until_it_is_in_the_primary_view,
    "decisions of a refused batch are lost":
        of_a_group.test_a_decision_on_a_limit_is_not_lost_with_a_refused_batch,
    "parts are unknown after a restart":
        of_a_group.test_nothing_starts_by_a_part_of_the_slots_that_is_no_longer_in_force,
}  # fmt: skip


@pytest.mark.parametrize(
    "mutant", [one for one in SLOT_MUTANTS if one.name not in NOTICED_BY], ids=lambda one: one.name
)
def test_mutant_is_caught_by_a_seed(mutant: Mutant) -> None:
    assert_a_seed_catches(mutant, lambda seed: play(make_slot_plan(seed)), SEEDS_MAX)


@pytest.mark.parametrize("mutant", [one for one in SLOT_MUTANTS if one.name in NOTICED_BY], ids=lambda one: one.name)
def test_mutant_is_caught_by_a_test(mutant: Mutant) -> None:
    assert_a_test_catches(mutant, NOTICED_BY[mutant.name])
