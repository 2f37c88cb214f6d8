"""Guarantees of a specification, kept by node processes under load. Shares are of served bytes, from access logs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters import KIB, Load, RunningCluster, make_site, shares
from tests.support.fiveclasses import (
    EVENLY,
    FIVE,
    FIVE_SPEC,
    PIPE,
    SETTLING_S,
    STARVED,
    WINDOW_S,
    assert_lifetimes,
    assert_shares,
    assert_told_in_time,
    assert_used,
    five_pages,
    points,
)  # fmt: skip
from tests.support.machine import Stalls, Starved
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Lines

pytestmark = [pytest.mark.timing, pytest.mark.long]

ENDS_OF_A_NODE = {"connection refused", "connection reset", "closed within the answer", "closed without an answer"}
DETECTION_S = 1.0  # a process that is gone is noticed by its connections
JOINED_WINDOW_S = 5.0
BUSY_S = 5.0  # for a machine that keeps the nodes waiting


def node_with(spec: str, root: Path, scratch: Path, *options: str) -> RunningNode:
    (scratch / "site.webqos").write_text(spec)
    return RunningNode(root, scratch, "--spec", str(scratch / "site.webqos"), *PIPE, *options)


def test_five_classes_on_one_node_get_their_shares_of_a_full_pipe(tmp_path: Path) -> None:
    with Stalls() as stalls, node_with(FIVE_SPEC, five_pages(tmp_path / "site"), tmp_path) as node:
        stalls.watch("n1", node.process.pid)
        starved = Starved([node.process.pid])
        with Load(tmp_path, [node], EVENLY, "--rate", "250", "--duration", "13s") as load:
            results = load.wait()
        part = starved.part()
        requests = node.log()
    from_s = requests[0]["ts"] + SETTLING_S
    assert_shares(requests, from_s, from_s + WINDOW_S, part)
    assert_used(requests, 1, from_s, from_s + WINDOW_S, part)
    assert_lifetimes(requests, stalls)
    assert_told_in_time(results, stalls, ["n1"])


def test_mixed_sizes_have_no_advantage(tmp_path: Path) -> None:
    promised = {"small": 0.10, "middle": 0.35, "large": 0.55}
    site = make_site(tmp_path / "site", {"small": 16 * KIB, "middle": 32 * KIB, "large": 64 * KIB})
    spec = "set lifetime = 500ms\nset channel = 16KB in 50ms\n" + "".join(
        f"</{name}>.server_resource = {share:.0%}\n" for name, share in promised.items()
    )
    with node_with(spec, site, tmp_path) as node:
        mix = [f"{name}=33:/{name}/page" for name in promised]
        starved = Starved([node.process.pid])
        with Load(tmp_path, [node], mix, "--rate", "150", "--duration", "13s") as load:
            load.wait()
        part = starved.part()
        requests = [dict(line) for line in node.log()]
    held = shares(requests, 2, 2 + WINDOW_S)
    wanted = {f"/{name}": pytest.approx(share, abs=points(part)) for name, share in promised.items()}
    assert held == wanted, f"{held}, {part:.3f} of the time starved"


def test_always_is_served_and_a_flash_crowd_harms_no_other_class(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(("now", "a", "b", "c"), 16 * KIB))
    spec = "set lifetime = 500ms\nset channel = 16KB in 100ms\n</now>.available = always\n" + "".join(
        f"</{name}>.server_resource = 25%\n" for name in "abc"
    )
    with node_with(spec, site, tmp_path) as node:
        mix = [f"{name}=20:/{name}/page" for name in ("now", "a", "b", "c")]
        crowd = ["--rate", "60", "--duration", "10s", "--flash", "a=x10@2s+6s"]
        starved = Starved([node.process.pid])
        with Load(tmp_path, [node], mix, *crowd) as load:
            results = load.wait()
        part = starved.part()
        outcomes = [(line["class"], line["outcome"]) for line in results]
    for name in ("now", "b", "c"):
        served = sum(one == (name, "accepted") for one in outcomes)
        total = sum(one[0] == name for one in outcomes)
        least = (1 if name == "now" else 0.98) - (points(part) if part > STARVED else 0)
        assert served >= least * total, (name, served, total, part)
    assert ("a", "denied") in outcomes


def test_an_accessed_page_changes_the_guarantees_on_every_node(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(("door", "room"), KIB))
    spec = "accessed(</door>) within 60s => </room>.available = always\n"
    with RunningCluster(site, tmp_path, spec, "ab", *PIPE) as cluster:
        assert [cluster.status(name)["classes"]["/room"]["always"] for name in "ab"] == [False, False]
        assert cluster.nodes["a"].get("/door/page").status == 200
        wait_for(lambda: cluster.status("b")["classes"]["/room"]["always"] or None, "the promise at b", 20)


def test_below_contention_nothing_is_denied_and_nothing_waits(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(FIVE, 16 * KIB))
    with Stalls() as stalls, node_with(FIVE_SPEC, site, tmp_path) as node:
        stalls.watch("n1", node.process.pid)
        with Load(tmp_path, [node], EVENLY, "--rate", "40", "--duration", "5s") as load:
            load.wait()
        requests = node.log()
    assert {line["decision"] for line in requests} == {"served"}
    waits = sorted(own_wait_ms(line, stalls) for line in requests)
    assert waits[len(waits) * 9 // 10] < 1


def own_wait_ms(line: dict[str, Any], stalls: Stalls) -> float:
    """The wait of a request, without the time that its node waited for a processor."""
    wait_ms = float(line["queue_ms"])
    return wait_ms - stalls.waited_ms("n1", line["ts"], line["ts"] + wait_ms / 1e3)


def test_three_nodes_with_uneven_arrivals_then_one_is_killed_and_another_joins(tmp_path: Path) -> None:
    site = five_pages(tmp_path / "site")
    with Stalls() as stalls, RunningCluster(site, tmp_path, FIVE_SPEC, "abc", *PIPE) as cluster:
        for name in "abc":
            stalls.watch(name, cluster.nodes[name].process.pid)
        results = uneven_arrivals(cluster, tmp_path)
        results += one_is_killed(cluster, tmp_path, stalls)
        another_joins(cluster, tmp_path, stalls)
        requests = cluster.requests("abd")
        views = primary_views(cluster, "a")
        seen_by_b = dict(primary_views(cluster, "b"))  # each node may have missed a short-lived view
    assert views[-1][1] == ["a", "b", "d"]
    assert seen_by_b[views[-1][0]] == ["a", "b", "d"]
    assert [(at, members) for at, members in views if seen_by_b.get(at, members) != members] == []
    assert_lifetimes(requests, stalls)
    assert_told_in_time(results, stalls, "ab")


def uneven_arrivals(cluster: RunningCluster, scratch: Path) -> Lines:
    nodes = [cluster.nodes[name] for name in "abc"]
    starved = Starved(node.process.pid for node in nodes)
    with Load(scratch, nodes, EVENLY, "--rate", "770", "--duration", "13s", spread="80,15,5") as load:
        results = load.wait()
    part = starved.part()
    requests = cluster.requests()
    from_s = requests[0]["ts"] + SETTLING_S
    assert_shares(requests, from_s, from_s + WINDOW_S, part)
    assert_used(requests, 3, from_s, from_s + WINDOW_S, part)
    assert any(line["decision"] == "redirected" for line in cluster.requests("a"))
    return results


def one_is_killed(cluster: RunningCluster, scratch: Path, stalls: Stalls) -> Lines:
    """The others continue within a second and have their shares after two more; none of their clients loses."""
    others = [cluster.nodes[name] for name in "ab"]
    with Load(scratch, others, EVENLY, "--rate", "550", "--duration", "12s") as load:
        wait_until_served(cluster, "ab", len(cluster.requests("ab")) + 1_000)
        killed_s = time.time()
        cluster.nodes["c"].process.kill()
        without_s = max(cluster.view_s(name, "ab", killed_s) for name in "ab")
        starved = Starved(node.process.pid for node in others)
        results = load.wait()
        part = starved.part()
    waited_s = sum(stalls.waited_ms(name, killed_s, without_s) for name in "ab") / 1e3
    assert without_s - killed_s - waited_s < DETECTION_S + 1 + (BUSY_S if part > STARVED else 0)
    failed = [line for line in results if line["outcome"] == "failed"]
    assert all(line["cause"] in ENDS_OF_A_NODE and line.get("redirects") for line in failed), failed  # were sent there
    assert_shares(cluster.requests("ab"), without_s + SETTLING_S, time.time(), part)
    return results


def another_joins(cluster: RunningCluster, scratch: Path, stalls: Stalls) -> None:
    """Two seconds after the node is in the view, its pipe is used, and shares are those of three nodes."""
    with Load(scratch, [cluster.nodes[name] for name in "ab"], EVENLY, "--rate", "770", "--duration", "120s"):
        wait_until_served(cluster, "ab", len(cluster.requests("ab")) + 500)
        asked_s = time.time()
        stalls.watch("d", cluster.add("d").process.pid)
        from_s = cluster.view_s("a", "abd", asked_s) + SETTLING_S
        starved = Starved(cluster.nodes[name].process.pid for name in "abd")
        cluster.until("abd", from_s + JOINED_WINDOW_S + 1)  # all earlier requests are logged by then
        part = starved.part()
    requests = cluster.requests("abd")
    assert_shares(requests, from_s, from_s + JOINED_WINDOW_S, part)
    assert_used(requests, 3, from_s, from_s + JOINED_WINDOW_S, part, least=0.9)  # all that is sent to it has to travel


def primary_views(cluster: RunningCluster, name: str) -> list[tuple[int, list[str]]]:
    return [(line["index"], line["members"]) for line in cluster.events(name, "view") if line["primary"]]


def wait_until_served(cluster: RunningCluster, names: str, count: int) -> None:
    wait_for(lambda: len(cluster.requests(names)) >= count or None, f"{count} requests", 60)
