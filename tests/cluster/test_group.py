"""Links, membership and end-points together: views form, break and merge, and messages stay in their view."""

from __future__ import annotations

import pytest

from cluster.actions import GcsView, StartChange
from cluster.names import ProcessId
from cluster.settings import Settings
from tests.cluster.group import LATENCY, Group
from tests.cluster.judge import judge


def test_three_processes_form_a_view_and_exchange_messages() -> None:
    group = Group("abc")
    group.run(1.0)
    assert group.views() == dict.fromkeys("abc", "abc")
    sent = [group.send(name) for name in "abcabc"]
    group.run(0.1)
    for name in "abc":
        assert sorted(map(repr, group.delivered(name))) == sorted(map(repr, sent))


def test_a_crash_is_one_view_change_of_one_message_delay() -> None:
    group = Group("abc")
    group.run(1.0)
    group.crash("c")
    group.run(LATENCY + 0.001)
    assert group.views() == {"a": "ab", "b": "ab"}


def test_partition_and_merge() -> None:
    group = Group("abcde")
    group.run(1.0)
    group.partition("abc", "de")
    group.run(1.0)
    assert group.views() == {"a": "abc", "b": "abc", "c": "abc", "d": "de", "e": "de"}
    group.heal()
    group.run(1.0)
    assert group.views() == dict.fromkeys("abcde", "abcde")


def settled(group: Group, seconds: float = 5.0) -> dict[str, str]:
    """The views after some time. No member made a proposal in its second half."""
    group.run(seconds)
    mark = len(group.trace)
    group.run(seconds)
    assert not [action for _, action in group.trace[mark:] if isinstance(action, StartChange)]
    judge(group.trace)
    return group.views()


def test_the_first_view_is_one_view() -> None:
    group = Group("abcde")
    group.run(1.0)
    assert len([action for _, action in group.trace if isinstance(action, GcsView)]) == 5


def test_a_merge_is_one_view_change() -> None:
    group = Group("abcde")
    group.run(1.0)
    group.partition("abc", "de")
    group.run(1.0)
    mark = len(group.trace)
    group.heal()
    group.run(1.0)
    views = {action.view for _, action in group.trace[mark:] if isinstance(action, GcsView)}
    assert len(views) == 1


@pytest.mark.parametrize("lost", "abcd")
def test_a_silent_death_costs_detection_and_one_round(lost: str) -> None:
    """No connection breaks: the members detect the crash by their clocks, the first of them for all."""
    group = Group("abcd")
    group.run(2.0)
    for other in "abcd".replace(lost, ""):
        group.silence(lost, other)
    group.run(group.settings.suspect_min + 3 * LATENCY)
    rest = "abcd".replace(lost, "")
    assert all(group.view(name) == rest for name in rest)


def test_one_way_silence_splits_the_two_and_nobody_else() -> None:
    group = Group("abc")
    group.run(2.0)
    group.silence("c", "a")
    assert settled(group) == {"a": "ab", "b": "ab", "c": "c"}
    group.heal()
    assert settled(group) == dict.fromkeys("abc", "abc")


@pytest.mark.parametrize(
    ("cuts", "views"),
    [
        (("ac",), ("ab", "c")),
        (("ac", "bd"), ("ab", "cd")),
        (("ad", "bd"), ("abc", "d")),
        (("ab", "ac", "bd"), ("ad", "bc")),
    ],
)
def test_where_hearing_is_not_transitive_there_are_smaller_views(cuts: tuple[str, ...], views: tuple[str, ...]) -> None:
    group = Group("".join(sorted("".join(views))))
    group.run(1.0)
    for pair in cuts:
        group.cut(*pair)
    found = settled(group)
    assert sorted(set(found.values())) == sorted(views) or all(
        found[member] == view for view in found.values() for member in view
    )
    group.heal()
    assert len(set(settled(group).values())) == 1


def test_a_leaving_process_is_excluded_at_once_and_stays_out() -> None:
    group = Group("abc")
    group.run(1.0)
    group.leave("b")
    group.run(2 * LATENCY + 0.001)
    assert (group.view("a"), group.view("c")) == ("ac", "ac")
    settled(group)
    assert (group.view("a"), group.view("c")) == ("ac", "ac")


def test_a_process_that_left_may_return_in_another_life() -> None:
    group = Group("abc")
    group.run(1.0)
    group.leave("b")
    group.run(1.0)
    group.crash("b")
    group.start("b")
    assert settled(group) == dict.fromkeys("abc", "abc")


def test_an_undetected_restart_leads_to_a_new_view() -> None:
    group = Group("abc")
    group.run(1.0)
    before = group.nodes[ProcessId("a")].endpoint.current_view
    group.send("a")
    group.crash("b")
    group.start("b")
    assert settled(group) == dict.fromkeys("abc", "abc")
    assert group.nodes[ProcessId("a")].endpoint.current_view.id > before.id
    assert group.delivered("b") == []


def test_messages_survive_a_connection_that_flickers() -> None:
    group = Group("abc")
    group.run(1.0)
    for _ in range(20):
        for name in "abc":
            group.send(name)
        group.run(LATENCY / 2)
        group.flicker("a", "b")
        group.run(0.3)
    assert settled(group) == dict.fromkeys("abc", "abc")


def test_a_client_slow_to_block_delays_its_view_and_breaks_nothing() -> None:
    group = Group("abc")
    group.run(1.0)
    for node in group.nodes.values():
        node.client.prompt = False
    group.crash("c")
    group.run(3.0)
    assert group.views() == dict.fromkeys("ab", "abc")
    for node in group.nodes.values():
        node.client.prompt = True
    for name in "ab":
        group.block_ok(name)
    assert settled(group) == dict.fromkeys("ab", "ab")


def test_a_member_that_stops_reading_is_excluded_and_returns() -> None:
    """The member sends heartbeats but reads nothing: its queue fills, it is left out, its queue is dropped."""
    group = Group("abc", settings=Settings(link_len_max=50))
    group.run(1.0)
    group.nodes[ProcessId("c")].deaf = True
    for _ in range(60):
        group.send("a")
    group.run(0.5)
    assert (group.view("a"), group.view("b")) == ("ab", "ab")
    assert not group.nodes[ProcessId("a")].links.link(ProcessId("c")).unacked
    group.nodes[ProcessId("c")].deaf = False
    for name in "ab":
        group.flicker(name, "c")
    group.run(10.0)
    assert group.views() == dict.fromkeys("abc", "abc")
    judge(group.trace)


def test_a_slow_and_uneven_network_is_learned() -> None:
    """Messages take longer than the first timeout of an attempt, with pauses as long as those of a crash."""
    group = Group("abcd", seed=3, jitter=0.4, latency=0.4)
    group.run(20.0)
    assert settled(group, 4.0) == dict.fromkeys("abcd", "abcd")
