"""Observations of the line law from series of TCP_INFO."""

from __future__ import annotations

import pytest

from qosweb.engine.laws.line_samples import ConnectionSeries, LineSampler, TcpInfo

MSS = 1448


def info(
    at_s: float, acked: int, *, rtt: int = 10_000, rwnd: int = 0, peer_min: int = 10_000, lost: int = 0
) -> TcpInfo:
    """A connection that is busy all the time and has ten segments under way."""
    acks = acked // MSS
    return TcpInfo(
        MSS,
        10,
        0,
        0,
        0,
        rtt,
        acked,
        acks + 1,
        4000,
        peer_min,
        1,
        int(at_s * 1e6),
        rwnd,
        acked + 10 * MSS + lost,
        lost,
        0,
    )


def test_the_first_reading_is_no_delivery() -> None:
    sampler, series = LineSampler(), ConnectionSeries("a")
    sampler.add(series, info(0.1, 1_000_000), 0.1, is_blocked=True)
    first = sampler.take(is_starved=False)
    assert (first.delivered, first.queue_s, first.is_blocked) == (0, None, False)
    sampler.add(series, info(0.125, 1_100_000, rtt=15_000), 0.125, is_blocked=True)
    seen = sampler.take(is_starved=True)
    assert seen.delivered == 100_000
    assert seen.queue_s == pytest.approx(0.005, abs=0.001)
    assert seen.base_s == 0.01
    assert seen.busy == pytest.approx(1.0)
    assert seen.in_flight == 10 * MSS
    assert seen.in_kernel == 4000 + 10 * MSS
    assert (seen.is_starved, seen.is_blocked) == (True, True)


def test_a_round_trip_is_fresher_than_the_smoothed_one() -> None:
    sampler, series = LineSampler(), ConnectionSeries("a")
    sampler.add(series, info(0.1, MSS), 0.1, is_blocked=False)
    sampler.add(series, info(0.125, 2 * MSS, rtt=11_000), 0.125, is_blocked=False)  # an eighth of 8 ms more
    sampler.take(is_starved=False)
    sampler.add(series, info(0.150, 3 * MSS, rtt=12_000), 0.150, is_blocked=False)
    seen = sampler.take(is_starved=False)
    assert seen.queue_s == pytest.approx(0.009, abs=0.0005)


def test_the_base_is_that_of_the_peer_and_the_queue_is_the_median_by_bytes() -> None:
    sampler = LineSampler()
    early, late = ConnectionSeries("a"), ConnectionSeries("a")
    for at_s, acked, rtt in ((0.1, 10_000, 20_000), (0.2, 2_000_000, 20_000)):
        sampler.add(early, info(at_s, acked // 100, rtt=10_000), at_s, is_blocked=False)
        sampler.add(late, info(at_s, acked, rtt=rtt, peer_min=18_000), at_s, is_blocked=False)
    seen = sampler.take(is_starved=False)
    assert seen.queue_s == pytest.approx(0.01)  # of the second, which began in a queue and sent more


def test_connections_that_wait_for_their_reader_are_no_evidence() -> None:
    sampler, slow = LineSampler(), ConnectionSeries("a")
    sampler.add(slow, info(0.1, 10_000), 0.1, is_blocked=True)
    sampler.add(slow, info(0.125, 20_000, rtt=90_000, rwnd=25_000, lost=5000), 0.125, is_blocked=True)
    seen = sampler.take(is_starved=False)
    assert seen.delivered == 10_000
    assert (seen.queue_s, seen.is_blocked, seen.sent, seen.busy) == (None, False, 0, 0.0)
