"""Moving averages of arrivals and starts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qosweb.engine.replicated.flows import STEP_MS, STEPS_MAX, Flow


def after(steps: int, per_step: int) -> Flow:
    flow = Flow()
    for _ in range(steps):
        flow.now += per_step
        flow.step(1)
    return flow


@given(st.integers(100, 10**9))
def test_mean_converges_within_the_documented_time(per_step: int) -> None:
    rate = per_step * 1000 // STEP_MS
    assert abs(after(10, per_step).per_s - rate) <= 0.53 * rate
    assert abs(after(20, per_step).per_s - rate) <= 0.28 * rate + 1
    assert abs(after(40, per_step).per_s - rate) <= 0.08 * rate + 1
    assert abs(after(400, per_step).per_s - rate) <= 1


@given(st.integers(0, 10**12))
def test_mean_decays_to_zero_and_not_below(per_step: int) -> None:
    flow = after(5, per_step)
    for _ in range(STEPS_MAX):
        flow.step(1)
        assert flow.mean >= 0
    assert flow.mean == 0


@given(st.integers(0, 10**9), st.integers(1, STEPS_MAX))
def test_several_steps_at_once_are_the_same(now: int, steps: int) -> None:
    one, other = after(3, 500), after(3, 500)
    one.now = other.now = now
    one.step(steps)
    for _ in range(steps):
        other.step(1)
    assert (one.now, one.mean) == (other.now, other.mean)


def test_long_silence_takes_bounded_work() -> None:
    flow = after(5, 10**9)
    flow.step(10**15)
    assert flow.per_s == 0


@given(st.integers(0, 10**9), st.integers(0, STEPS_MAX))
def test_per_s_after_has_no_side_effect(per_step: int, steps: int) -> None:
    flow, later = after(5, per_step), after(5, per_step)
    later.step(steps)
    assert flow.per_s_after(steps) == later.per_s
    assert flow == after(5, per_step)
