"""Every mutant of the engine in the catalogue is caught, by a seed known to show it or one soon after.

Mutants that show only in rare situations are caught by a test of that situation instead.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from qosweb.engine.sim.plan import make_plan
from qosweb.engine.sim.run import play
from tests.engine import test_engine
from tests.engine.local import test_batch_timing, test_pipe_queue, test_wait_estimate
from tests.engine.replicated import test_pipe_scheduler
from tests.engine.sim import test_sample_load
from tests.engine.sim.mutant_catalogue import MUTANTS
from tests.support.mutants import assert_a_seed_catches, assert_a_test_catches

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.sim.mutation import Mutant

pytestmark = pytest.mark.long

SEEDS_MAX = 8
NOTICED_BY: dict[str, Callable[[], None]] = {
    "waiting classes demand everything": partial(test_sample_load.hold_the_ceiling_on_one_node, seeds=4),
    "virtual time is forgotten at once": partial(test_sample_load.hold_the_ceiling_on_one_node, seeds=4),
    "a pause changes the weights at once":
        test_pipe_scheduler.test_class_above_its_bound_is_charged_by_the_bound_while_the_other_class_pauses,
    "a class that exceeds the pipe is away":
        test_pipe_scheduler.test_class_that_starts_requests_in_a_full_pipe_is_not_away,
    "always-available classes give credit":
        test_pipe_scheduler.test_always_available_class_gives_no_credit_to_a_class_that_joins,
    "grants run ahead in gaps": test_sample_load.test_one_node_holds_the_ceiling_though_few_requests_wait,
    "grants run ahead of the last request of a class":
        test_pipe_scheduler.test_nothing_is_granted_ahead_when_the_last_request_of_a_class_that_is_behind_starts,
    "credit is unbounded": test_pipe_scheduler.test_credit_of_a_class_is_bounded,
    "weights are shares": test_pipe_scheduler.test_class_that_demands_little_has_the_weight_of_its_guarantee,
    "waits are estimated by weights": test_wait_estimate.test_class_that_gets_more_than_its_weight_waits_less,
    "expired requests start": test_pipe_queue.test_grant_after_the_lifetime_does_not_start,
    "void grants are accepted": test_engine.test_grant_from_before_a_restatement_is_void,
    "request numbers restart at one": test_engine.test_request_numbers_are_not_reused_after_a_restart,
    "counts of lost batches are dropped": test_engine.test_lost_batch_keeps_the_class_numbers_of_its_policy,
    "first request of a class is delayed": test_batch_timing.test_first_request_of_a_class_is_sent_at_once,
    "always-available requests are delayed":
        test_batch_timing.test_released_channel_is_sent_at_once_to_always_available_requests,
    "batches wait without limit": test_batch_timing.test_node_with_ready_requests_collects_events,
    "batches never wait": test_batch_timing.test_under_contention_batches_are_few_and_the_pipe_stays_full,
    "refused batches are resent at once": test_engine.test_refused_batch_is_resent_without_loss,
}  # fmt: skip


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.name not in NOTICED_BY], ids=lambda one: one.name)
def test_mutant_is_caught_by_a_seed(mutant: Mutant) -> None:
    assert_a_seed_catches(mutant, lambda seed: play(make_plan(seed)), SEEDS_MAX)


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.name in NOTICED_BY], ids=lambda one: one.name)
def test_mutant_is_caught_by_a_test(mutant: Mutant) -> None:
    assert_a_test_catches(mutant, NOTICED_BY[mutant.name])


def test_the_catalogue_is_not_empty() -> None:
    assert len(MUTANTS) >= 12
