"""Network partition: five nodes in namespaces, silently split three to two under load, and healed.

The two decide alone, each on its own pipe, and deny what exceeds it; the three continue as the cluster. After healing,
all five are one cluster again with equal state.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from loadgen.experiments.nodes import NodePlace, NodeProcesses
from loadgen.experiments.processes import end, start
from tests.support.clusters import KIB, make_site, make_trace
from tests.support.fiveclasses import BUSY_MS, LIFETIME_MS, assert_lifetimes
from tests.support.machine import Stalls
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from loadgen.experiments.nodes import NodeProcess
    from tests.support.clusters import Lines

pytestmark = pytest.mark.timing

THREE, TWO = ("n1", "n2", "n3"), ("n4", "n5")
NAMES = THREE + TWO
ORDERS = "/orders"
SPEC = (
    f"set lifetime = {LIFETIME_MS}ms\nset channel = 16KB in 200ms\n"
    "</a>.server_resource = 50%\n</b>.server_resource = 30%\n"
    f"<{ORDERS}>.in_minority = deny\n<{ORDERS}>.server_resource = 20%\n"
)
MIX = ("a=50:/a/page", "b=35:/b/page", "orders=15:/orders/page")
SECONDS = 2.0  # of requests in each situation


def test_majority_continues_minority_decides_alone_and_all_merge(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(("a", "b", "orders"), 16 * KIB))
    (tmp_path / "site.webqos").write_text(SPEC)
    common = ["--root", str(site), "--spec", str(tmp_path / "site.webqos"), "--capacity", "400KB/s"]
    try:
        network = NamespaceNetwork(NAMES)
        network.__enter__()
    except NamespacesUnavailable as reason:
        pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {reason}")
    try:
        with Stalls() as stalls, NodeProcesses(tmp_path, common, cluster=True) as nodes:
            begin(nodes, network)
            for node in nodes.all:
                stalls.watch(node.name, node.process.pid)
            logs = partition_and_heal(nodes, network, tmp_path, stalls)
    finally:
        network.__exit__()
    assert_lifetimes([line for of_node in logs.values() for line in of_node if "event" not in line], stalls)


def begin(nodes: NodeProcesses, network: NamespaceNetwork) -> None:
    for name in NAMES:
        node = nodes.begin(
            name, NodePlace(network.address(name), tuple(network.at(name)), partial(network.within, name))
        )
        if name == NAMES[0]:
            node.wait()
    nodes.settle()


def partition_and_heal(
    nodes: NodeProcesses, network: NamespaceNetwork, scratch: Path, stalls: Stalls
) -> dict[str, Lines]:
    trace = make_trace(scratch, MIX, "--rate", "200", "--duration", "60s")
    urls = [word for node in nodes.all for word in ("--target", node.url)]
    run = [*network.at(), sys.executable, "-m", "loadgen.cli", "run", str(trace), *urls, "--allow-remote", "--quiet"]
    load = start(run, scratch / "load.txt")
    try:
        asked_for(nodes, time.time() + SECONDS)
        network.part(THREE, TWO)
        for name in THREE:
            wait_for(lambda: logged_members(nodes[name]) == list(THREE) or None, "a view of three", 60)  # noqa: B023
        for name in TWO:
            wait_for(lambda: logged_members(nodes[name]) == [name] or None, "none of two", 60)  # noqa: B023
        cut_s = time.time()
        asked_for(nodes, cut_s + SECONDS)
        logs_when_cut = {node.name: lines(node) for node in nodes.all}  # requests waiting now may be served later
        network.heal()
        nodes.settle()
        healed_s = time.time()
        asked_for(nodes, healed_s + SECONDS)
    finally:
        end(load)
    logs = {node.name: lines(node) for node in nodes.all}
    was_busy = any(stalls.worst_ms(name) > BUSY_MS for name in NAMES)  # a starved node may be suspected as failed
    judge_cut(logs_when_cut, cut_s, was_busy)
    judge_healed(logs, healed_s, was_busy)
    judge_order_of_views(logs)
    digests = wait_for(lambda: at_one_position(nodes), "all nodes to be at one position", 60)
    assert len(digests) == 1, digests
    return logs


def judge_cut(logs: dict[str, Lines], from_s: float, was_busy: bool) -> None:
    seen = {
        name: [line for line in of_node if "event" not in line and line["ts"] > from_s]
        for name, of_node in logs.items()
    }
    assert len({line["view"] for name in THREE for line in seen[name]}) == 1 or was_busy
    assert {line["view"] for name in TWO for line in seen[name]} == {""}
    for name, of_node in seen.items():
        served = {line["class"] for line in of_node if line["decision"] == "served"}
        assert served == ({"/a", "/b", ORDERS} if name in THREE else {"/a", "/b"}), name
        waited = [line["queue_ms"] for line in of_node if line["decision"] != "served"]
        assert waited, f"{name} had more than enough room"
    orders = [line for name in TWO for line in seen[name] if line["class"] == ORDERS]
    assert {line["decision"] for line in orders} == {"denied"}


def judge_healed(logs: dict[str, Lines], from_s: float, was_busy: bool) -> None:
    after = [line for of_node in logs.values() for line in of_node if "event" not in line and line["ts"] > from_s]
    assert len({line["view"] for line in after}) == 1 or was_busy
    assert {line["node"] for line in after if line["class"] == ORDERS and line["decision"] == "served"} == set(NAMES)


def judge_order_of_views(logs: dict[str, Lines]) -> None:
    """Primary views are totally ordered: equal at equal positions, with increasing ids, each following the last."""
    views: dict[int, tuple[str, ...]] = {}
    for of_node in logs.values():
        primary = [line for line in of_node if line.get("event") == "view" and line["primary"]]
        assert [line["index"] for line in primary] == sorted(line["index"] for line in primary)
        for line in primary:
            members = tuple(line["members"])
            assert views.setdefault(line["index"], members) == members
    ordered = [set(views[index]) for index in sorted(views)]
    assert set(THREE) in ordered
    assert ordered[-1] == set(NAMES)
    for before, after in pairwise(ordered):
        assert before & after, (before, after)


def at_one_position(nodes: NodeProcesses) -> set[str] | None:
    """The digests of all nodes, if they are at the same position of the order."""
    groups = [(node.status() or {}).get("group") or {} for node in nodes.all]
    positions = {group.get("position") for group in groups}
    return {str(group["digest"]) for group in groups} if len(positions) == 1 and None not in positions else None


def logged_members(node: NodeProcess) -> list[str]:
    """The members of the view in the node's latest log lines."""
    views = [line for line in lines(node) if line.get("event") == "view"]
    return list(views[-1]["members"]) if views else []


def asked_for(nodes: NodeProcesses, until_s: float) -> None:
    """Wait until all nodes have logged requests that came after this time."""

    def all_have() -> bool | None:
        return all(any(line["ts"] > until_s for line in lines(node)[-50:]) for node in nodes.all) or None

    wait_for(all_have, "requests at every node", 60)


def lines(node: NodeProcess) -> list[dict[str, Any]]:
    text = node.log.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
