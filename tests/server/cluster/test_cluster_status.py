"""Cluster of three processes, observed at each node: status, queue, metrics, and the commands that show them.

The tests depend on the order of the file: the last one leaves a single node.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from signal import Signals
from typing import TYPE_CHECKING, Any

import pytest

from cluster.runtime.net.keys import make_key_file
from tests.support.clusters import RunningCluster
from tests.support.nodes import RunningNode, run_command
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = """\
set lifetime = 30s
set channel = 64KB in 1s
</index.html>.available = always
</thick.html>.server_resource > 60%
</page.html>.lifetime = 100ms
</page.html>.num_requests < 1
"""
CAPACITY = 64 << 10
THICK = "/thick.html"  # takes a second of a pipe
IMPATIENT = "/page.html"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningNode]]:
    """c1, c2 and c3, once every node sees all three."""
    folder = tmp_path_factory.mktemp("cluster")
    site = write_site(folder / "site")
    (folder / "site.webqos").write_text(SPEC)
    make_key_file(folder / "key")
    common = ("--spec", str(folder / "site.webqos"), "--capacity", "64KB/s", "--key-file", str(folder / "key"))
    with ExitStack() as stack:
        nodes: list[RunningNode] = []
        for name in ("c1", "c2", "c3"):
            (folder / name).mkdir()
            way_in = ("--join", RunningCluster.group_address(nodes[0])) if nodes else ("--bootstrap",)
            node = RunningNode(site, folder / name, *common, *way_in, "--group", "127.0.0.1:0", "--name", name)
            nodes.append(stack.enter_context(node))
        wait_for(lambda: all(map(_sees_all, nodes)), "one cluster", 60)
        yield nodes


def _sees_all(node: RunningNode) -> bool:
    capacities = [one["capacity_bytes_per_s"] for one in status(node)["nodes"].values()]
    return len(capacities) == 3 and all(capacities)


def status(node: RunningNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.admin("/status"))
    return found


def command(node: RunningNode, *arguments: str) -> tuple[int, str, str]:
    done = run_command(*arguments, "--admin", f"127.0.0.1:{node.admin_port}")
    return done.returncode, done.stdout, done.stderr


def class_status(node: RunningNode, name: str) -> dict[str, Any]:
    found: dict[str, Any] = status(node)["classes"][name]
    return found


def test_every_node_shows_the_same_cluster(cluster: list[RunningNode]) -> None:
    found = [status(node) for node in cluster]
    for number, one in enumerate(found, 1):
        assert (one["name"], one["scope"], one["primary"], one["can_lose"]) == (f"c{number}", "cluster", True, 1)
        assert one["members"] == sorted(one["nodes"]) == ["c1", "c2", "c3"]
        assert one["view"] == found[0]["view"]
        assert one["policy"]["hash"] == found[0]["policy"]["hash"] != ""
        processor = one["capacity"].pop("processor")
        assert processor.keys() == {"state", "waiting", "bytes_per_s", "times_full"}
        assert one["capacity"] == {
            "bytes_per_s": CAPACITY, "cluster_bytes_per_s": 3 * CAPACITY, "set_by_hand": True, "line": None,
        }  # fmt: skip
        assert [other["url"] for _, other in sorted(one["nodes"].items())] == [node.url for node in cluster]
        assert one["classes"]["/index.html"]["share"]["promised"] is None
        assert one["classes"][THICK]["share"]["promised"] >= 0.6
    node = cluster[1]
    assert node.metric("qosweb_primary") == node.metric("cluster_primary") == 1
    assert node.metric("qosweb_view_members") == 3
    assert node.metric("qosweb_view_epoch") == found[1]["view"]["epoch"]
    assert node.metric("qosweb_policy_info", hash=found[1]["policy"]["hash"]) == 1
    assert node.metric("qosweb_capacity_bytes_per_second") == CAPACITY
    assert node.metric("qosweb_cluster_capacity_bytes_per_second") == 3 * CAPACITY
    assert node.metric("qosweb_class_share_promised_ratio", **{"class": THICK}) >= 0.6


def test_a_request_waiting_at_one_node_is_seen_at_all(cluster: list[RunningNode]) -> None:
    first, second, third = cluster
    first.get(THICK)  # from now on its size is known
    with ExitStack() as stack:
        for _ in range(30):
            connection = stack.enter_context(first.connect())
            connection.send(f"GET {THICK} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

        def queue() -> dict[str, Any] | None:
            found: dict[str, Any] = json.loads(second.admin("/queue"))
            return found if found["waiting"] else None

        seen = wait_for(queue, "the second node to see who waits at the first")
        assert list(seen["classes"]) == [THICK]
        waiting = seen["classes"][THICK]
        assert len(waiting["entries"]) == waiting["waiting"] == seen["waiting"]
        assert {one["node"] for one in waiting["entries"]} == {"c1"}
        assert all(one["bytes"] > 60_000 and one["waits_ms"] >= 0 for one in waiting["entries"])
        assert waiting["waiting_bytes"] == sum(one["bytes"] for one in waiting["entries"])
        wait_for(lambda: third.metric("qosweb_queue_entries", **{"class": THICK}), "the third to see it, too")
        code, drawn, errors = command(third, "status")
        assert (code, errors) == (0, "")
        assert "c3 *" in drawn
        assert "3 nodes, 1 more may fail" in drawn
    for node in cluster:
        wait_for(lambda node=node: class_status(node, THICK)["waiting"] == 0, "the queue to be empty")  # type: ignore[misc]


def test_a_denial_is_counted_with_its_reason(cluster: list[RunningNode]) -> None:
    node = cluster[2]
    replies = [node.get(IMPATIENT) for _ in range(8)]  # it may have one a second, and waits for no longer than 100 ms
    reasons = Counter(reply.headers["qos-decision"].partition("reason=")[2] for reply in replies if reply.status == 503)
    assert reasons.total() >= 4
    labels = {"class": IMPATIENT}
    for reason, count in reasons.items():
        assert node.metric("qosweb_rejected_requests_total", **labels, reason=reason) == count
    outcomes = [node.metric("qosweb_requests_total", **labels, outcome=one) for one in ("denied", "expired")]
    assert sum(outcomes) == reasons.total()
    assert node.metric("qosweb_request_wait_seconds_count", **labels) == len(replies)
    assert class_status(node, IMPATIENT)["denials"] == reasons


def test_all_nodes_count_the_same_totals(cluster: list[RunningNode]) -> None:
    before = class_status(cluster[0], "/index.html")["cluster"]["started"]
    for node in cluster:
        assert node.get("/").status in (200, 307)
    served = sum(
        node.metric("qosweb_requests_total", **{"class": "/index.html", "outcome": "served"}) for node in cluster
    )
    assert served + sum(class_status(node, "/index.html")["redirected"] for node in cluster) == 3

    def counts() -> set[int]:
        return {class_status(node, "/index.html")["cluster"]["started"] for node in cluster}

    wait_for(lambda: len(counts()) == 1 and min(counts()) > before, "the same count at all nodes")


def test_a_policy_changes_on_all_nodes_at_one_position(cluster: list[RunningNode], tmp_path: Path) -> None:
    other = tmp_path / "other.webqos"
    other.write_text(SPEC + "</other>.server_resource < 10%\n")
    before = {status(node)["policy"]["hash"] for node in cluster}
    code, said, errors = command(cluster[2], "reload", str(other))
    assert (code, errors) == (0, "")
    assert "in the whole cluster, from position " in said
    for node in cluster:
        wait_for(lambda node=node: "/other" in status(node)["classes"], "the new policy")  # type: ignore[misc]
    assert len({status(node)["policy"]["hash"] for node in cluster} - before) == 1

    other.write_text("</x>.nonsense = 3\n")
    code, said, _ = command(cluster[0], "reload", str(other))
    assert code == 1
    assert "unknown attribute 'nonsense'" in said
    assert "/other" in status(cluster[0])["classes"]


def test_a_node_that_is_cut_off_says_so(cluster: list[RunningNode], tmp_path: Path) -> None:
    """Half of a view may continue if it has the lowest rank: so the last node is the one that stays alone."""
    for node in cluster[:2]:
        node.stop(Signals.SIGKILL)
    last = cluster[2]
    wait_for(lambda: status(last)["scope"] == "local", "the last to notice that it is alone", 60)
    found = status(last)
    assert (found["primary"], found["members"], found["can_lose"], found["view"]) == (False, ["c3"], 0, None)
    assert last.metric("qosweb_primary") == 0
    assert last.get("/").headers["qos-scope"] == "local"
    code, drawn, _ = command(last, "status")
    assert code == 0
    assert "CUT OFF" in drawn
    assert "QoS-Scope: local" in drawn
    other = tmp_path / "other.webqos"
    other.write_text(SPEC)
    code, _, errors = command(last, "reload", str(other))
    assert code == 2
    assert "not in a primary view" in errors
    code, said, errors = command(last, "drain")
    assert (code, errors) == (0, "")
    assert said.startswith(f"the node at 127.0.0.1:{last.admin_port} accepts no new connections")
    assert last.process.wait(30) == 0
