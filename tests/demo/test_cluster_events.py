"""Event lines of the demo."""

from __future__ import annotations

from typing import Any

from qosweb.demo.cluster_events import ClusterEvents, NodeSnapshot, describe_exit


def seen(epoch: int, members: str, denied: int = 0, policy: str = "p1", scope: str = "cluster") -> dict[str, Any]:
    return {
        "scope": scope,
        "view": {"id": f"{epoch}:aa", "epoch": epoch} if scope == "cluster" else None,
        "time_ms": 0,
        "members": members.split(),
        "can_lose": (len(members.split()) - 1) // 2,
        "policy": {"hash": policy},
        "classes": {"/free": {"cluster": {"denied": denied, "cancelled": 0}}},
    }


def test_a_view_is_reported_once() -> None:
    events = ClusterEvents()
    snapshots = [NodeSnapshot(name, seen(3, "a b c"), None) for name in "abc"]
    assert events.update(snapshots, 1.0) == ["primary view 3:aa: a b c; 1 more may fail"]
    assert events.update(snapshots, 1.0) == []


def test_a_node_that_is_killed_and_the_view_without_it() -> None:
    events = ClusterEvents()
    events.update([NodeSnapshot(name, seen(3, "a b c"), None) for name in "abc"], 1.0)
    snapshots = [
        NodeSnapshot("a", seen(4, "a b"), None),
        NodeSnapshot("b", seen(4, "a b"), None),
        NodeSnapshot("c", None, -9),
    ]
    assert events.update(snapshots, 1.0) == ["c ended (SIGKILL)", "primary view 4:aa: a b; none more may fail"]
    assert events.update(snapshots, 1.0) == []


def test_a_suspended_node_returns_cut_off_and_then_rejoins() -> None:
    events = ClusterEvents()
    a = NodeSnapshot("a", seen(3, "a b"), None)
    events.update([a, NodeSnapshot("b", seen(3, "a b"), None)], 1.0)
    assert events.update([a, NodeSnapshot("b", None, None)], 1.0) == ["b does not respond"]
    alone = NodeSnapshot("b", seen(0, "b", scope="local"), None)
    assert events.update([a, alone], 1.0) == ["b responds again", "b is cut off and decides alone"]
    assert events.update([a, alone], 1.0) == []
    assert events.update([a, NodeSnapshot("b", seen(3, "a b"), None)], 1.0) == ["b is back in the cluster"]


def test_denials_are_counted_per_second_and_policies_by_their_change() -> None:
    events = ClusterEvents()
    events.update([NodeSnapshot("a", seen(3, "a", denied=100), None)], 1.0)
    later = events.update([NodeSnapshot("a", seen(3, "a", denied=130, policy="p2"), None)], 2.0)
    assert later == ["policy p2 is in force", "not served per second: /free 15"]


def test_exit_codes_and_signals_are_described() -> None:
    assert [describe_exit(code) for code in (0, 2, -15, -250)] == [
        "exit code 0",
        "exit code 2",
        "SIGTERM",
        "signal 250",
    ]
