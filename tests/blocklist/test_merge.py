"""The merge rule of the block list: its algebra, and what it means for blocks and unblocks on two sides."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from qosweb.blocklist.merge import HeldBlock, ListState, merge, merge_all
from qosweb.blocklist.operations import BlockOperation

IDS = st.sampled_from([f"{number:x}" for number in range(6)])
LEFT = st.sampled_from((0.5, 1.0, 60.0, inf))


def block(name: str) -> BlockOperation:
    return BlockOperation(name, "203.0.113.0/24", "", inf, "", "", "", 0.0)


@st.composite
def states(draw: st.DrawFn) -> ListState:
    removed = draw(st.dictionaries(IDS, LEFT, max_size=4))
    held = {
        name: HeldBlock(block(name), left_s) for name, left_s in draw(st.dictionaries(IDS, LEFT, max_size=5)).items()
    }
    return ListState({name: one for name, one in held.items() if name not in removed}, removed)


@given(states())
def test_the_merge_of_equal_states_is_that_state(state: ListState) -> None:
    assert merge(state, state) == state
    assert merge_all([state, state, state]) == state
    assert merge(state, ListState({}, {})) == state == merge(ListState({}, {}), state)


@given(states(), states())
def test_the_order_does_not_matter(one: ListState, other: ListState) -> None:
    assert merge(one, other) == merge(other, one)


@given(states(), states(), states())
def test_the_grouping_does_not_matter(one: ListState, other: ListState, third: ListState) -> None:
    assert merge(merge(one, other), third) == merge(one, merge(other, third)) == merge_all([third, one, other])


@given(states(), states())
def test_the_rule(one: ListState, other: ListState) -> None:
    merged = merge(one, other)
    for name in {*one.held, *other.held}:
        assert (name in merged.held) == (name not in one.removed and name not in other.removed)
    for name, held in merged.held.items():
        assert held.left_s == max(side.held[name].left_s for side in (one, other) if name in side.held)
    assert merged.removed.keys() == one.removed.keys() | other.removed.keys()


def test_merging_nothing() -> None:
    assert merge_all([]) == ListState({}, {})
