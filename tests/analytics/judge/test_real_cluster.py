"""Cluster guarantees judged from the event lines of real clusters, and from tampered copies of these lines.

The nodes join, leave, crash and return while policies are switched.
"""

from __future__ import annotations

import urllib.request
from signal import Signals
from typing import TYPE_CHECKING

import pytest

from qosweb.analytics.judge import view_chain
from qosweb.analytics.read.log_lines import event_in
from qosweb.analytics.read.rows import HELD, VIOLATED
from tests.support.clusters import RunningCluster, make_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from qosweb.analytics.read.rows import LogEvent


def switch(cluster: RunningCluster, at: str, names: str, share: int) -> None:
    """Switches the policy at one node; these nodes log it. The same policy may come back."""
    before = {name: len(switches(cluster, name)) for name in names}
    request = urllib.request.Request(
        f"http://127.0.0.1:{cluster.nodes[at].admin_port}/policy",
        data=f"</a>.server_resource > {share}%\n".encode(),
        method="PUT",
        headers={"Content-Type": "text/plain"},
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        assert reply.status == 200
    for name, count in before.items():
        wait_for(lambda name=name, count=count: len(switches(cluster, name)) > count or None, f"the switch at {name}")  # type: ignore[misc]


def switches(cluster: RunningCluster, name: str) -> list[int]:
    return [line["index"] for line in cluster.events(name, "policy") if line["index"] is not None]


def told(cluster: RunningCluster, names: str) -> list[LogEvent]:
    """All events that these nodes logged, before and after restarts: the log of a node is one file."""
    lines = [line for name in names for line in (cluster.scratch / name / "access.log").read_text().splitlines()]
    return [event for line in lines if (event := event_in(line)) is not None]


@pytest.mark.parametrize("disk", [False, True], ids=["volatile", "disk"])
def test_nodes_join_and_leave_while_policies_are_switched(tmp_path: Path, disk: bool) -> None:
    site = make_site(tmp_path / "site", {"a": 16})
    with RunningCluster(site, tmp_path, "</a>.server_resource > 10%\n", "abc") as cluster:

        def data(name: str) -> list[str]:
            return ["--data-dir", str(tmp_path / f"{name}.disk")] if disk else []

        switch(cluster, "a", "abc", 20)
        cluster.nodes["c"].kill(Signals.SIGKILL)
        cluster.nodes["c"].process.wait(30)
        cluster.together("ab")
        switch(cluster, "b", "ab", 30)
        switch(cluster, "a", "ab", 20)  # it is what c knew
        cluster.add("c", *data("c"))
        cluster.together("abc")
        switch(cluster, "c", "abc", 40)
        cluster.add("d", *data("d"))
        cluster.together("abcd")
        switch(cluster, "d", "abcd", 50)
        cluster.nodes["d"].stop()
        cluster.together("abc")
        switch(cluster, "a", "abc", 60)
        cluster.add("d", *data("d"))
        cluster.together("abcd")
        cluster.nodes["c"].kill(Signals.SIGSTOP)
        cluster.together("abd")
        switch(cluster, "b", "abd", 70)
        cluster.nodes["c"].kill(Signals.SIGCONT)
        cluster.together("abcd")
        switch(cluster, "b", "abcd", 30)
        for name in "abcd":
            cluster.nodes[name].stop()
        events = told(cluster, "abcd")

    assert [(v.rule, v.outcome, v.reason) for v in view_chain.judge_cluster(events) if v.outcome != HELD] == []
    *_, second, third, fourth, fifth, sixth, _, _ = places_of_switches(events)
    for node, place in (("b", second), ("a", third), ("a", fifth), ("c", fifth), ("b", sixth)):
        assert f"but {node} skipped it" in broken(without(events, node, place)), (node, place)
    assert f"begins at index {fourth}" in broken(moved(without(events, "c", fourth), "b", fourth))


def places_of_switches(events: list[LogEvent]) -> list[int]:
    return sorted({event.place for event in events if event.kind == "policy" and event.place is not None})


def broken(events: list[LogEvent]) -> str:
    return next(
        v.reason for v in view_chain.judge_cluster(events) if (v.rule, v.outcome) == (view_chain.SWITCHED, VIOLATED)
    )


def without(events: list[LogEvent], node: str, place: int) -> list[LogEvent]:
    left = [event for event in events if (event.kind, event.node, event.place) != ("policy", node, place)]
    assert len(left) < len(events)
    return left


def moved(events: list[LogEvent], node: str, place: int) -> list[LogEvent]:
    own = ("policy", node, place)
    return [
        event._replace(place=place + 1) if (event.kind, event.node, event.place) == own else event for event in events
    ]
