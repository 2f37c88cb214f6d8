"""The cluster's own promises, from event lines: kept, and broken in each way."""

from __future__ import annotations

import pytest

from qosweb.analytics import chain
from qosweb.analytics.rows import HELD, NOT_TESTED, VIOLATED, Event


def view(node: str, place: int | None, name: str, members: str, *, ts: float = 1.0, primary: bool = True) -> Event:
    return Event("view", ts, node, place, name, tuple(members), primary)


def policy(node: str, place: int | None, name: str, ts: float = 5.0) -> Event:
    return Event("policy", ts, node, place, policy=name, text="x")


CHAIN = [
    view("a", 1, "1:aaaa", "abc"),
    view("b", 1, "1:aaaa", "abc"),
    view("a", 7, "3:bbbb", "ab", ts=2.0),
    view("b", 7, "3:bbbb", "ba", ts=2.1),
    view("c", None, "4:cccc", "c", ts=2.0, primary=False),
    view("b", 9, "10:dddd", "bc", ts=3.0),
    policy("a", 2, "p1"),
    policy("b", 2, "p1"),
    policy("b", 12, "p2"),
    policy("c", 12, "p2", ts=9.0),
]


def violated(events: list[Event]) -> dict[str, str]:
    return {v.rule: v.reason for v in chain.judge_cluster(events) if v.outcome == VIOLATED}


def test_a_chain_is_held() -> None:
    assert [v.outcome for v in chain.judge_cluster(CHAIN)] == [HELD] * 6


def test_without_event_lines_nothing_is_tested() -> None:
    local = [view("a", None, "1:aaaa", "a"), policy("a", None, "p1")]
    assert [v.outcome for v in chain.judge_cluster(local)] == [NOT_TESTED] * 6


@pytest.mark.parametrize(
    ("added", "rule", "said"),
    [
        (view("c", 2, "1:aaaa", "abc"), chain.ONE_PLACE, "view 1:aaaa has index 1 at a and 2 at c"),
        (view("c", 1, "1:aaaa", "abcd"), chain.ONE_PLACE, "other members"),
        (view("c", 7, "3:eeee", "bc"), chain.ONE_VIEW, "index 7 is view 3:bbbb at a and view 3:eeee at c"),
        (view("c", 8, "2:eeee", "bc"), chain.RISING, "view 3:bbbb has index 7, view 2:eeee has index 8"),
        (view("d", 11, "11:ffff", "d"), chain.SHARED, "views 10:dddd (index 9) and 11:ffff (index 11) share no member"),
        (policy("a", 13, "p2"), chain.SWITCHED, "policy p2 begins at index 12 at b and at 13 at a"),
        (policy("a", 12, "p3"), chain.SWITCHED, "index 12 switches to different policies: p2 at b, p3 at a"),
        (policy("c", 14, "p4", ts=2.5), chain.CONFIRMED, "policy p4 has index 14 only at c, outside the primary view"),
    ],
    ids=["places", "members", "claims", "rising", "shared", "switched", "two-policies", "outside"],
)
def test_each_way_to_break_it_is_found(added: Event, rule: str, said: str) -> None:
    found = violated([*CHAIN, added])
    assert said in found[rule]
    assert set(found) <= {rule, chain.ONE_PLACE, chain.RISING, chain.SWITCHED}


def test_a_policy_may_be_confirmed_once_more() -> None:
    assert violated([*CHAIN, policy("a", 12, "p2"), policy("a", 15, "p2"), policy("b", 15, "p2")]) == {}


def test_a_policy_may_come_back() -> None:
    assert violated([*CHAIN, policy("a", 20, "p1"), policy("b", 20, "p1")]) == {}


def test_the_order_of_ids_is_that_of_their_numbers() -> None:
    """9 comes before 10."""
    assert violated([view("a", 1, "9:aaaa", "a"), view("a", 2, "10:aaaa", "a")]) == {}


def test_requests_that_end_twice() -> None:
    assert chain.judge_once([], 0, 0).outcome == NOT_TESTED
    assert chain.judge_once([], 0, 9).outcome == HELD
    found = chain.judge_once([("r-1", ["served at a", "served at b"])], 1, 9)
    assert (found.outcome, found.reason) == (
        VIOLATED,
        "1 requests ended more than once: r-1: served at a, served at b",
    )
