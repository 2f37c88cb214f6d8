"""What a class asks for."""

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


def test_who_waits_asks_for_everything() -> None:
    one = ClassState("x")
    one.add(ProcessId("a"), 1, Waiter(1, 10, 0))
    assert demand_ppm(one, CAPACITY, 0) == PPM


def test_who_waited_a_moment_ago_still_does() -> None:
    one = ClassState("x")
    one.backlog_ms = 1000
    assert demand_ppm(one, CAPACITY, 1000 + BACKLOG_MS - 1) == PPM
    assert demand_ppm(one, CAPACITY, 1000 + BACKLOG_MS) == 0


def test_who_does_not_wait_asks_for_a_little_more_than_what_came() -> None:
    for percent in (1, 10, 50, 90):
        asks = demand_ppm(coming(CAPACITY * percent // 100), CAPACITY, 10**6)
        came = PPM * percent // 100
        assert min(PPM, came) <= asks <= came + 2 * STEP_PPM
        assert asks % STEP_PPM == 0


def test_more_than_everything_is_everything() -> None:
    assert demand_ppm(coming(5 * CAPACITY), CAPACITY, 10**6) == PPM


def test_without_a_known_capacity_whatever_came_may_need_it_all() -> None:
    assert demand_ppm(coming(1000), 0, 10**6) == PPM
    assert demand_ppm(ClassState("x"), 0, 10**6) == 0


def test_what_is_always_available_wants_what_came_also_while_it_waits() -> None:
    one = coming(CAPACITY * 40 // 100)
    one.add(ProcessId("a"), 1, Waiter(1, 10, 0))
    asks = demand_ppm(one, CAPACITY, 0, always=True)
    assert PPM * 40 // 100 - STEP_PPM <= asks <= PPM * 40 // 100


def test_what_is_always_available_leaves_the_others_something_to_divide() -> None:
    assert demand_ppm(coming(5 * CAPACITY), CAPACITY, 10**6, always=True) == PPM - STEP_PPM
