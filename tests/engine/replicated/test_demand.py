"""Demand of a class."""

from __future__ import annotations

from cluster.names import ProcessId
from qosweb.engine.replicated.classes import ClassState, Waiter
from qosweb.engine.replicated.demand import ALWAYS_STEP_PPM, HORIZON_MS, STEP_PPM, demand_ppm
from qosweb.webqos.values import PPM

CAPACITY = 1_000_000


def coming(per_s: int) -> ClassState:
    one = ClassState("x")
    for _ in range(300):
        one.came.now += per_s // 10
        one.came.step(1)
    return one


def waiting(one: ClassState, cost: int) -> ClassState:
    one.add(ProcessId("a"), 1, Waiter(1, cost, 0))
    return one


def test_class_with_a_small_page_waiting_demands_little() -> None:
    assert 0 < demand_ppm(waiting(ClassState("x"), 3_000), CAPACITY) < PPM * 5 // 100


def test_class_that_waits_has_a_demand_however_little_waits() -> None:
    assert demand_ppm(waiting(ClassState("x"), 10), CAPACITY) == STEP_PPM


def test_class_that_waited_recently_demands_nothing_more() -> None:
    one = ClassState("x")
    one.backlog_ms = 1000
    assert demand_ppm(one, CAPACITY) == 0


def test_what_waits_is_to_start_within_the_horizon() -> None:
    cost = CAPACITY * HORIZON_MS // 1000
    assert demand_ppm(waiting(ClassState("x"), cost), CAPACITY) == PPM // STEP_PPM * STEP_PPM
    half = demand_ppm(waiting(coming(CAPACITY // 4), cost // 4), CAPACITY)
    assert PPM // 2 - 2 * STEP_PPM <= half <= PPM // 2


def test_class_that_does_not_wait_demands_its_arrivals() -> None:
    for percent in (1, 10, 50, 90):
        asks = demand_ppm(coming(CAPACITY * percent // 100), CAPACITY)
        came = PPM * percent // 100
        assert came - 2 * STEP_PPM < asks <= came
        assert asks % STEP_PPM == 0


def test_demand_is_at_most_the_capacity() -> None:
    assert demand_ppm(coming(5 * CAPACITY), CAPACITY) == PPM
    assert demand_ppm(waiting(ClassState("x"), CAPACITY), CAPACITY) == PPM


def test_any_arrivals_demand_everything_without_a_known_capacity() -> None:
    assert demand_ppm(coming(1000), 0) == PPM
    assert demand_ppm(waiting(ClassState("x"), 10), 0) == PPM
    assert demand_ppm(ClassState("x"), 0) == 0
    assert demand_ppm(coming(1000), 0, always=True) == 0


def test_always_available_class_demands_its_arrivals_even_while_waiting() -> None:
    asks = demand_ppm(waiting(coming(CAPACITY * 40 // 100), 10), CAPACITY, always=True)
    assert PPM * 40 // 100 - ALWAYS_STEP_PPM <= asks <= PPM * 40 // 100


def test_always_available_class_leaves_a_step_to_the_others() -> None:
    assert demand_ppm(coming(5 * CAPACITY), CAPACITY, always=True) == PPM - ALWAYS_STEP_PPM
