"""Pauses of closed-loop clients."""

from __future__ import annotations

import math
import random
import statistics

from loadgen.send.think_times import ThinkTimes


def test_pauses_end_with_a_whole_millisecond_the_first_first() -> None:
    pauses = ThinkTimes(0.01, random.Random(1))
    begun = sum(pauses.begin(5.00049, 0.0) for _ in range(1000))
    ends = []
    while pauses.next_s < math.inf:
        ends.append(pauses.next_s)
        pauses.end()
    assert len(ends) == begun > 900
    assert ends == sorted(ends)
    assert all(math.isclose(end * 1000, round(end * 1000)) for end in ends)
    assert ends[0] >= 5.001


def test_pauses_are_as_long_as_asked_on_average() -> None:
    pauses = ThinkTimes(0.01, random.Random(2))
    lengths = []
    for _ in range(5000):
        if pauses.begin(7.0, 0.0):
            lengths.append(pauses.next_s - 7.0)
            pauses.end()
        else:
            lengths.append(0.0)
    assert math.isclose(statistics.fmean(lengths), 0.01, rel_tol=0.05)


def test_no_pause_without_a_mean() -> None:
    pauses = ThinkTimes(0.0, random.Random(3))
    assert not pauses.begin(1.0, 0.0)
    assert pauses.next_s == math.inf


def test_a_client_that_failed_pauses_for_a_moment_at_least() -> None:
    pauses = ThinkTimes(0.0001, random.Random(4))
    assert pauses.begin(1.0, 0.01)
    assert pauses.next_s >= 1.01
