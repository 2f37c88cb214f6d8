"""Views form, break and merge, and messages stay where they belong: links, membership and end-points together."""

from __future__ import annotations

from tests.cluster.group import LATENCY, Group


def test_three_form_a_view_and_talk() -> None:
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
