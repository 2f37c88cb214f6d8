"""Which missing packets are asked for, and when again."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from cluster.bulk.gaps import Gaps
from cluster.bulk.nak_rounds import ROUNDS_MAX, NakRounds

WAIT = 5.0


def with_missing(*missing: int, end: int = 20) -> Gaps:
    gaps = Gaps()
    for packet in range(end):
        if packet not in missing:
            gaps.arrived(packet, is_end=False)
    return gaps


def test_new_gaps_at_once_and_old_ones_after_their_time() -> None:
    gaps, rounds = with_missing(3, 5), NakRounds()
    assert rounds.take(gaps, 0.0, 0.0 + WAIT, 10) == ((3, 4), (5, 6))
    gaps.arrived(22, is_end=False)
    assert rounds.take(gaps, 2.0, 2.0 + WAIT, 10) == ((20, 22),)
    gaps.arrived(5, is_end=False)
    assert rounds.due_at == WAIT
    assert rounds.take(gaps, 5.0, 5.0 + WAIT, 10) == ((3, 4),)
    assert rounds.take(gaps, 6.0, 6.0 + WAIT, 10) == ()
    assert rounds.take(gaps, 7.0, 7.0 + WAIT, 10) == ((20, 22),)
    gaps.arrived(3, is_end=False)
    assert rounds.take(gaps, 13.0, 13.0 + WAIT, 10) == ((20, 22),)
    rounds.expire(14.0)
    assert rounds.take(gaps, 14.0, 14.0 + WAIT, 10) == ((20, 22),)
    for packet in (20, 21):
        gaps.arrived(packet, is_end=False)
    assert rounds.take(gaps, 30.0, 30.0 + WAIT, 10) == ()
    assert rounds.due_at == inf


def test_a_round_that_does_not_fit_continues_in_the_next_nak() -> None:
    gaps, rounds = with_missing(1, 3, 5, 7), NakRounds()
    assert rounds.take(gaps, 0.0, WAIT, 10) == ((1, 2), (3, 4), (5, 6), (7, 8))
    gaps.arrived(21, is_end=False)
    assert rounds.take(gaps, 6.0, 6.0 + WAIT, 2) == ((1, 2), (3, 4))
    assert rounds.due_at <= 6.0
    assert rounds.take(gaps, 6.1, 6.1 + WAIT, 4) == ((5, 6), (7, 8), (20, 21))
    assert rounds.due_at == 6.0 + WAIT


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=200), st.integers(1, 5))
def test_a_missing_packet_is_asked_for_once_per_wait(steps: list[tuple[int, bool]], count: int) -> None:
    gaps, rounds = Gaps(), NakRounds()
    asked: dict[int, float] = {}
    for now, (packet, is_nak) in enumerate(steps):
        if not is_nak:
            gaps.arrived(packet, is_end=False)
            continue
        for first, end in rounds.take(gaps, now, now + WAIT, count):
            for one in range(first, end):
                assert gaps.is_missing(one)
                assert now >= asked.get(one, -inf) + WAIT
                asked[one] = now
    end_at = len(steps) + WAIT
    everything = {one for first, end in rounds.take(gaps, end_at, end_at + WAIT, 100) for one in range(first, end)}
    assert everything == {one for first, end in gaps.first(100) for one in range(first, end)}


def test_the_number_of_rounds_is_bounded() -> None:
    gaps, rounds = Gaps(), NakRounds()
    for at in range(3 * ROUNDS_MAX):
        gaps.arrived(2 * at + 1, is_end=False)
        rounds.take(gaps, at, inf, 10)
    assert len(rounds._rounds) == ROUNDS_MAX
    rounds.expire(1000.0)
    assert len(rounds.take(gaps, 1000.0, inf, 1000)) == 3 * ROUNDS_MAX
