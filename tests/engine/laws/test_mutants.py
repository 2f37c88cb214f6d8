"""Every mutant of the Knee law is caught by a test of its simulation or of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.laws import test_knee
from tests.engine.laws import test_simulated_servers as simulated
from tests.engine.laws.mutant_catalogue import MUTANTS
from tests.support.mutants import assert_a_test_catches

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.sim.mutation import Mutant

CAUGHT_BY: dict[str, Callable[[], object]] = {
    "no margin": lambda: simulated.judge_steady("lognormal 20 ms, 8"),
    "no leak": lambda: simulated.judge_changing(simulated.HALVED[2], (0.0, 0.0, 10.0)),
    "dips are judged before all have ended": test_knee.test_dip_is_judged_when_all_its_requests_have_ended,
    "phases have a fixed time": test_knee.test_dip_lasts_for_a_number_of_starts,
    "no cap": test_knee.test_one_very_late_request_counts_as_four_usual_ones,
    "no alarm": simulated.test_lost_places_are_noticed_while_the_limit_does_not_bind,
    "times are not compared per class": test_knee.test_change_of_the_mix_is_no_change_of_service_time,
    "unlimited starts are samples": test_knee.test_limit_does_not_move_while_it_does_not_bind,
    "no guard": simulated.test_limit_does_not_run_away_past_a_bottleneck,
    "failures do not count": simulated.test_failing_server_gets_one_request_at_a_time,
    "failed requests stay open": test_knee.test_failed_requests_do_not_delay_a_judgement,
    "trial never ends": test_knee.test_a_success_ends_the_trial,
    "bound by hand is ignored": simulated.test_bound_by_hand_is_kept,
    "growth without evidence": test_knee.test_limit_at_most_doubles,
    "dips without depth": lambda: simulated.judge_changing(simulated.HALVED[2], (5.0, 3.0, 10.0)),
    "estimate is lost with failures": test_knee.test_a_success_ends_the_trial,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    assert_a_test_catches(mutant, CAUGHT_BY[mutant.name])


def test_every_mutant_has_a_test() -> None:
    assert {one.name for one in MUTANTS} == CAUGHT_BY.keys()
