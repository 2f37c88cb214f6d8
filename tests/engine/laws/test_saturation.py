"""The saturation law on simulated series of busy time."""

from __future__ import annotations

import pytest

from qosweb.engine.laws.saturation import COOL_S, WINDOW_S, SaturationLaw


class Series:
    """Feeds the law windows with a given part of busy time."""

    def __init__(self) -> None:
        self.law = SaturationLaw()
        self.now = 10.0
        self.busy_s = 3.0
        self.work = 0
        self.waiting = 0
        self.observe()

    def observe(self, *, is_shared: bool = True) -> None:
        self.law.observe(self.now, self.busy_s, self.work, is_shared=is_shared, waiting=self.waiting)

    def windows(self, count: int, busy: float, work: int = 0, *, is_shared: bool = True) -> Series:
        for _ in range(count):
            self.now += WINDOW_S * 1.01
            self.busy_s += WINDOW_S * 1.01 * busy
            self.work += work
            self.observe(is_shared=is_shared)
        return self


def test_full_after_two_windows_without_sleep() -> None:
    series = Series().windows(1, 1.0)
    assert not series.law.is_saturated
    assert series.windows(1, 1.0).law.is_saturated


@pytest.mark.parametrize("busy", [0.0, 0.5, 0.85])
def test_a_loop_that_sleeps_is_not_full(busy: float) -> None:
    assert not Series().windows(1_000, busy).law.is_saturated


def test_single_long_turns_are_no_saturation() -> None:
    series = Series()
    for _ in range(100):
        series.windows(1, 1.0).windows(1, 0.3)
        assert not series.law.is_saturated


def test_one_connection_has_nobody_to_compete_with() -> None:
    assert not Series().windows(100, 1.0, is_shared=False).law.is_saturated


def test_readings_within_a_window_are_ignored() -> None:
    series = Series()
    for _ in range(3):
        series.now += WINDOW_S / 4
        series.busy_s += WINDOW_S / 4
        series.observe()
    assert not series.law.is_saturated
    assert series.windows(2, 1.0).law.is_saturated


def test_it_ends_when_the_loop_sleeps_again_and_nobody_waits() -> None:
    series = Series().windows(4, 1.0)
    series.waiting = 3
    assert series.windows(200, 0.5).law.is_saturated
    series.waiting = 0
    assert not series.windows(1, 0.5).law.is_saturated


def test_a_short_lull_does_not_end_it() -> None:
    series = Series().windows(4, 1.0)
    for _ in range(20):
        series.windows(int(COOL_S / WINDOW_S) - 5, 0.5).windows(1, 1.0)
        assert series.law.is_saturated


def test_capacity_is_the_work_per_second_while_full() -> None:
    series = Series().windows(300, 1.0, work=5_000)
    assert series.law.capacity_per_s == pytest.approx(5_000 / (WINDOW_S * 1.01), rel=0.01)
    series.windows(300, 1.0, work=2_000)
    assert series.law.capacity_per_s == pytest.approx(2_000 / (WINDOW_S * 1.01), rel=0.01)


def test_capacity_is_not_learnt_while_the_loop_sleeps() -> None:
    series = Series().windows(300, 1.0, work=5_000).windows(300, 0.5, work=100)
    assert series.law.capacity_per_s == pytest.approx(5_000 / (WINDOW_S * 1.01), rel=0.01)
