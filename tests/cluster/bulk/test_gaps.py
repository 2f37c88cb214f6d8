"""Missing packets as ranges, against a set of packets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.bulk.gaps import Gaps

steps = st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60)


@given(steps)
def test_ranges_are_what_a_set_says(steps: list[tuple[bool, int]]) -> None:
    gaps, here, seen = Gaps(), set(), 0
    for is_packet, value in steps:
        if is_packet:
            assert gaps.arrived(value, is_end=False) == (value not in here)
            here.add(value)
            seen = max(seen, value + 1)
        else:
            gaps.exists(value, is_end=False)
            seen = max(seen, value)
        missing = [packet for first, end in gaps.first(100) for packet in range(first, end)]
        assert missing == [packet for packet in range(seen) if packet not in here]
        assert gaps.seen == seen


@given(st.permutations(range(12)))
def test_a_message_is_complete_with_its_last_missing_packet(order: list[int]) -> None:
    gaps = Gaps()
    for at, packet in enumerate(order):
        assert not gaps.is_complete
        gaps.arrived(packet, is_end=packet == 11)
        assert gaps.is_complete == (at == 11)


def test_an_empty_packet_tells_the_end() -> None:
    gaps = Gaps()
    gaps.arrived(0, is_end=False)
    gaps.exists(3, is_end=True)
    assert gaps.first(10) == ((1, 3),)
    gaps.arrived(2, is_end=True)
    gaps.arrived(1, is_end=False)
    assert gaps.is_complete
