"""Pipes: when they are full, and what is granted ahead."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.names import ProcessId
from qosweb.engine.replicated.pipes import LOOKAHEAD_MS, Pipe, held, whole_channel

A = ProcessId("a")
RATE = 256_000


def pipe_with(capacity_bps: int, *costs: int) -> Pipe:
    pipe = Pipe()
    pipe.capacity_bps = capacity_bps
    for number, cost in enumerate(costs):
        pipe.take(A, number, held(0, cost, RATE, visits=False))
    return pipe


def test_pipe_without_a_report_has_no_room() -> None:
    assert not pipe_with(0).has_room
    assert not pipe_with(0, 1000).has_room


def test_full_when_long_channels_use_the_capacity() -> None:
    assert pipe_with(2 * RATE, 10**7).has_room
    assert not pipe_with(2 * RATE, 10**7, 10**7).has_room


def test_channels_that_end_soon_are_granted_ahead() -> None:
    """Channels that are held for 64 ms, two of them: within 50 ms there is use for one and a half more."""
    page = RATE * 64 // 1000
    granted = 0
    pipe = pipe_with(2 * RATE)
    while pipe.has_room:
        granted += 1
        pipe.take(A, granted, held(0, page, RATE, visits=False))
    assert granted == 2 + round(2 * LOOKAHEAD_MS / 64)


def test_redirect_is_granted_further_ahead() -> None:
    here, there = held(0, 16_384, RATE, visits=False), held(0, 16_384, RATE, visits=True)
    assert here.ahead_bps == RATE * 50 // 64
    assert there.ahead_bps == RATE * 150 // 164


@given(
    st.integers(1, 20_000),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1_000, 10**5), st.booleans()), min_size=1, max_size=40),
)
@settings(max_examples=50, deadline=None)
def test_grants_ahead_are_bounded(capacity_bps: int, channels: list[tuple[int, int, bool]]) -> None:
    """No more than what one channel after the other could start within the time that is looked ahead."""
    pipe = Pipe()
    pipe.capacity_bps = capacity_bps
    most = 0
    for number in range(10**4):
        if not pipe.has_room:
            break
        cost, rate, visits = channels[number % len(channels)]
        pipe.take(A, number, held(0, cost, rate, visits=visits))
        most = max(most, rate)
    assert not pipe.has_room
    assert pipe.used_bps <= capacity_bps * (2 + LOOKAHEAD_MS + 100) + most


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), max_size=30), st.data())
def test_take_and_give_back_cancel_out(channels: list[tuple[int, int]], data: st.DataObject) -> None:
    pipe = Pipe()
    for number, (cost, rate) in enumerate(channels):
        pipe.take(A, number, held(0, cost, rate, visits=False))
    for number in data.draw(st.permutations(range(len(channels)))):
        assert pipe.give_back(A, number) is not None
        assert pipe.give_back(A, number) is None
    assert (pipe.used_bps, pipe.ahead_bps, pipe.channels) == (0, 0, {})


@given(st.integers(1, 10**9), st.integers(0, 10**9))
def test_whole_channels_share_the_remainder(rate: int, capacity_bps: int) -> None:
    size = whole_channel(rate, capacity_bps)
    count = max(1, capacity_bps // rate)
    assert count * size <= max(capacity_bps, count)
    assert size >= min(rate, max(1, capacity_bps))
    assert capacity_bps - count * size < count or capacity_bps == 0
