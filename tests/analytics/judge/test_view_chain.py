"""The cluster's own guarantees, from event lines: held, and violated in each possible way."""

from __future__ import annotations

import pytest

from qosweb.analytics.judge import view_chain
from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, LogEvent


def view(node: str, place: int | None, name: str, members: str, *, ts: float = 1.0, primary: bool = True) -> LogEvent:
    return LogEvent("view", ts, node, place, name, tuple(members), primary)


def policy(node: str, place: int | None, name: str, ts: float = 5.0) -> LogEvent:
    return LogEvent("policy", ts, node, place, policy=name, text="x")


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


def violated(events: list[LogEvent]) -> dict[str, str]:
    return {v.rule: v.reason for v in view_chain.judge_cluster(events) if v.outcome == VIOLATED}


def test_a_chain_is_held() -> None:
    assert [v.outcome for v in view_chain.judge_cluster(CHAIN)] == [HELD] * 6


def test_without_event_lines_nothing_is_tested() -> None:
    local = [view("a", None, "1:aaaa", "a"), policy("a", None, "p1")]
    assert [v.outcome for v in view_chain.judge_cluster(local)] == [NOT_TESTED] * 6


@pytest.mark.parametrize(
    ("added", "rule", "said"),
    [
        (view("c", 2, "1:aaaa", "abc"), view_chain.ONE_PLACE, "view 1:aaaa has index 1 at a and 2 at c"),
        (view("c", 1, "1:aaaa", "abcd"), view_chain.ONE_PLACE, "different members"),
        (view("c", 7, "3:eeee", "bc"), view_chain.ONE_VIEW, "index 7 is view 3:bbbb at a and view 3:eeee at c"),
        (view("c", 8, "2:eeee", "bc"), view_chain.RISING, "view 3:bbbb has index 7, view 2:eeee has index 8"),
        (
            view("d", 11, "11:ffff", "d"),
            view_chain.SHARED,
            "views 10:dddd (index 9) and 11:ffff (index 11) share no member",
        ),
        (policy("a", 13, "p2"), view_chain.SWITCHED, "policy p2 begins at index 12 at b and at 13 at a"),
        (policy("a", 12, "p3"), view_chain.SWITCHED, "index 12 switches to different policies: p2 at b, p3 at a"),
        (
            policy("c", 14, "p4", ts=2.5),
            view_chain.CONFIRMED,
            "policy p4 has index 14 only at c, outside the primary view",
        ),
    ],
    ids=["places", "members", "claims", "rising", "shared", "switched", "two-policies", "outside"],
)
def test_each_violation_is_found(added: LogEvent, rule: str, said: str) -> None:
    found = violated([*CHAIN, added])
    assert said in found[rule]
    assert set(found) <= {rule, view_chain.ONE_PLACE, view_chain.RISING, view_chain.SWITCHED}


def test_a_policy_may_be_confirmed_again() -> None:
    assert violated([*CHAIN, policy("a", 12, "p2"), policy("a", 15, "p2"), policy("b", 15, "p2")]) == {}


def test_a_policy_may_come_back() -> None:
    assert violated([*CHAIN, policy("a", 20, "p1"), policy("b", 20, "p1")]) == {}


def test_the_order_of_ids_is_that_of_their_numbers() -> None:
    """9 comes before 10."""
    assert violated([view("a", 1, "9:aaaa", "a"), view("a", 2, "10:aaaa", "a")]) == {}


def switched(node: str, *at: int | str) -> list[LogEvent]:
    """Policy events in view 20:vvvv of a, b and c, which begins at index 10."""
    pairs = zip(at[::2], at[1::2], strict=True)
    events = [policy(node, int(place), str(name), ts=3.0 + int(place)) for name, place in pairs]
    return [view(node, 10, "20:vvvv", "abc", ts=2.0), *events]


SWITCHES = [
    pytest.param(
        switched("a", "p", 12, "q", 20, "r", 30) + switched("b", "p", 12, "r", 30),
        "index 20 switches to policy q at a, but b skipped it",
        id="one is passed over",
    ),
    pytest.param(
        switched("a", "p", 12, "q", 13) + switched("b", "p", 14) + switched("c", "q", 15),
        "policy p begins at index 12 at a and at 14 at b",
        id="one after the other",
    ),
    pytest.param(
        switched("a", "p", 12, "q", 20, "r", 30)[1:] + switched("b", "p", 12, "r", 30)[1:],
        "index 20 switches to policy q at a, but b skipped it",
        id="without views",
    ),
    pytest.param(
        switched("a", "p", 12, "q", 13)[1:] + switched("b", "p", 14)[1:],
        "policy p begins at index 12 at a and at 14 at b",
        id="one after the other, without views",
    ),
    pytest.param(
        [*switched("a", "p", 12, "q", 20), *switched("b", "p", 12), LogEvent("capacity", 30.0, "a", 22, said_by="b")],
        "index 20 switches to policy q at a, but b skipped it",
        id="a capacity shows that it went on",
    ),
    pytest.param(
        [
            *switched("a", "p", 12, "q", 20), view("a", 25, "21:wwww", "ab", ts=40.0),
            *switched("b", "p", 12), view("b", 25, "21:wwww", "ab", ts=40.0),
        ],
        "index 20 switches to policy q at a, but b skipped it",
        id="it went on into the next view",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("events", "said"), SWITCHES)
def test_a_switch_at_different_indices_is_a_violation(events: list[LogEvent], said: str) -> None:
    assert said in violated(events)[view_chain.SWITCHED]


A_ALL_THE_TIME = [
    *switched("a", "p", 12, "q", 20, "r", 30),
    view("a", 15, "21:wwww", "ac", ts=16.0),
    view("a", 25, "22:xxxx", "abc", ts=26.0),
]
MAY_PASS_OVER = [
    pytest.param(
        [view("b", 10, "20:vvvv", "abc", ts=2.0), policy("b", 12, "p", 15.0), view("b", None, "", "b", ts=16.0,
         primary=False), view("b", 25, "22:xxxx", "abc", ts=26.0), policy("b", 30, "r", 33.0)],
        id="it was outside",
    ),
    pytest.param(
        [*switched("b", "p", 12, "r", 30), view("b", 25, "22:xxxx", "abc", ts=26.0)],
        id="so short that it did not say so, and others had a view without it",
    ),
    pytest.param([view("b", 25, "22:xxxx", "abc", ts=26.0), policy("b", 30, "r", 33.0)], id="it joined"),
    pytest.param([*switched("b", "p", 12), policy("b", None, "p", 22.0)], id="it ended and began again"),
    pytest.param(
        [*switched("b", "p", 12), policy("b", None, "q", 25.5), policy("b", 30, "r", 33.0),
         view("b", 25, "22:xxxx", "abc", ts=33.1)],
        id="it got the state, and its view is said after an entry of it",
    ),
]  # fmt: skip


@pytest.mark.parametrize("events", MAY_PASS_OVER)
def test_a_node_that_received_the_state_may_skip_switches(events: list[LogEvent]) -> None:
    assert violated([*A_ALL_THE_TIME, *events]) == {}


def test_a_node_that_stopped_may_lack_later_switches() -> None:
    assert violated([*switched("a", "p", 12, "q", 20), *switched("b", "p", 12)]) == {}


def test_a_policy_may_begin_again_for_other_nodes() -> None:
    """The node that had the policy first has left; the node that has it now joined later."""
    first = [view("a", 1, "1:aaaa", "ab"), policy("a", 2, "p")]
    then = [view("b", 5, "2:bbbb", "bc", ts=6.0), view("c", 5, "2:bbbb", "bc", ts=6.0), policy("c", 9, "p", ts=9.0)]
    assert violated([*first, *then]) == {}


def test_missing_event_lines_leave_rules_untested() -> None:
    broken = switched("a", "p", 12, "q", 20, "r", 30) + switched("b", "p", 12, "r", 30)
    found = {v.rule: v.outcome for v in view_chain.judge_cluster(broken, is_all=False)}
    assert (found[view_chain.SWITCHED], found[view_chain.ONE_VIEW]) == (NOT_TESTED, HELD)


def test_requests_that_end_twice() -> None:
    assert view_chain.judge_once([], 0, 0).outcome == NOT_TESTED
    assert view_chain.judge_once([], 0, 9).outcome == HELD
    found = view_chain.judge_once([("r-1", ["served at a", "served at b"])], 1, 9)
    assert (found.outcome, found.reason) == (
        VIOLATED,
        "1 requests ended more than once: r-1: served at a, served at b",
    )


def copy(event: LogEvent) -> LogEvent:
    return event._replace(repeated=True)


INCOMPLETE = [
    pytest.param(
        [*switched("a", "p", 12, "q", 20, "r", 30), *map(copy, switched("b", "r", 30)), *switched("b", "s", 40)],
        id="the log of b begins after a switch",
    ),
    pytest.param(
        [view("a", 1, "1:aaaa", "ab"), copy(view("b", 9, "7:bbbb", "cd", ts=7.0))],
        id="views between the logs of a and b are missing",
    ),
    pytest.param(
        [view("a", 1, "1:aaaa", "ab"), policy("a", 5, "p"), copy(policy("b", 12, "p", 12.0))],
        id="the policy came back, and the switch away from it is missing",
    ),
    pytest.param(
        [view("a", None, "", "a", ts=2.0, primary=False), policy("a", 5, "p", 3.0), copy(policy("b", 8, "q", 8.0))],
        id="the line of b that confirms a switch is missing",
    ),
]


@pytest.mark.parametrize("events", INCOMPLETE)
def test_missing_log_files_violate_nothing(events: list[LogEvent]) -> None:
    assert violated(events) == {}
    as_if_complete = [event._replace(repeated=False) for event in events]
    assert violated(as_if_complete) != {}, "the copies matter"
