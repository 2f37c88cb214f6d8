"""Demand of a class."""

from __future__ import annotations

from cluster.names import ProcessId
from qosweb.engine.replicated.classes import ClassState, Waiter
from qosweb.engine.replicated.demand import BACKLOG_MS, STEP_PPM, demand_ppm
from qosweb.webqos.values import PPM

CAPACITY = 1_000_000


def coming(per_s: int) -> ClassState:
    one = ClassState("x")
    for _ in range(300):
        one.came.now += per_s // 10
        one.came.step(1)
    return one


def test_waiting_class_demands_everything() -> None:
    one = ClassState("x")
    one.add(ProcessId("a"), 1, Waiter(1, 10, 0))
    assert demand_ppm(one, CAPACITY, 0) == PPM


def test_class_that_waited_recently_demands_everything() -> None:
    one = ClassState("x")
    one.backlog_ms = 1000
    assert demand_ppm(one, CAPACITY, 1000 + BACKLOG_MS - 1) == PPM
    assert demand_ppm(one, CAPACITY, 1000 + BACKLOG_MS) == 0


def test_class_that_does_not_wait_demands_a_little_more_than_its_arrivals() -> None:
    for percent in (1, 10, 50, 90):
        asks = demand_ppm(coming(CAPACITY * percent // 100), CAPACITY, 10**6)
        came = PPM * percent // 100
        assert min(PPM, came) <= asks <= came + 2 * STEP_PPM
        assert asks % STEP_PPM == 0


def test_demand_is_at_most_the_capacity() -> None:
    assert demand_ppm(coming(5 * CAPACITY), CAPACITY, 10**6) == PPM


def test_any_arrivals_demand_everything_without_a_known_capacity() -> None:
    assert demand_ppm(coming(1000), 0, 10**6) == PPM
    assert demand_ppm(ClassState("x"), 0, 10**6) == 0


def test_always_available_class_demands_its_arrivals_even_while_waiting() -> None:
    one = coming(CAPACITY * 40 // 100)
    one.add(ProcessId("a"), 1, Waiter(1, 10, 0))
    asks = demand_ppm(one, CAPACITY, 0, always=True)
    assert PPM * 40 // 100 - STEP_PPM <= asks <= PPM * 40 // 100


def test_always_available_class_leaves_a_step_to_the_others() -> None:
    assert demand_ppm(coming(5 * CAPACITY), CAPACITY, 10**6, always=True) == PPM - STEP_PPM
