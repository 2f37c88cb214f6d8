"""Promises of a specification, kept by nodes as processes under load. Shares are of served bytes, by access logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.clusters import KIB, Load, RunningCluster, make_site, shares
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

FIVE = {"a": 0.10, "b": 0.15, "c": 0.20, "d": 0.25, "e": 0.30}
FIVE_SPEC = "set lifetime = 500ms\nset channel = 16KB in 100ms\n" + "".join(
    f"</{name}>.server_resource = {share:.0%}\n" for name, share in FIVE.items()
)
EVENLY = [f"{name}=20:/{name}/page" for name in FIVE]
PIPE = ("--capacity", "2MB/s")  # some 126 pages of 16 KB a second
WINDOW_S = 10
ENDS_OF_A_NODE = {"connection refused", "connection reset", "closed within the answer", "closed without an answer"}


def node_with(spec: str, root: Path, scratch: Path, *options: str) -> RunningNode:
    (scratch / "site.webqos").write_text(spec)
    return RunningNode(root, scratch, "--spec", str(scratch / "site.webqos"), *PIPE, *options)


def test_five_classes_on_one_node_get_their_shares(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(FIVE, 16 * KIB))
    with node_with(FIVE_SPEC, site, tmp_path) as node:
        with Load(tmp_path, [node], EVENLY, "--rate", "250", "--duration", "13s") as load:
            load.wait()
        requests = node.log()
    held = shares(requests, 2, 2 + WINDOW_S)
    assert held == {f"/{name}": pytest.approx(share, abs=0.02) for name, share in FIVE.items()}
    assert max(float(str(line["queue_ms"])) for line in requests) < 500 + 500  # ms; a busy machine may be late


def test_mixed_sizes_have_no_advantage(tmp_path: Path) -> None:
    promised = {"small": 0.10, "middle": 0.35, "large": 0.55}
    site = make_site(tmp_path / "site", {"small": 16 * KIB, "middle": 32 * KIB, "large": 64 * KIB})
    spec = "set lifetime = 500ms\nset channel = 16KB in 50ms\n" + "".join(
        f"</{name}>.server_resource = {share:.0%}\n" for name, share in promised.items()
    )
    with node_with(spec, site, tmp_path) as node:
        mix = [f"{name}=33:/{name}/page" for name in promised]
        with Load(tmp_path, [node], mix, "--rate", "150", "--duration", "13s") as load:
            load.wait()
        requests = [dict(line) for line in node.log()]
    held = shares(requests, 2, 2 + WINDOW_S)
    assert held == {f"/{name}": pytest.approx(share, abs=0.02) for name, share in promised.items()}


def test_always_is_served_and_a_crowd_harms_nobody_else(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(("now", "a", "b", "c"), 16 * KIB))
    spec = "set lifetime = 500ms\nset channel = 16KB in 100ms\n</now>.available = always\n" + "".join(
        f"</{name}>.server_resource = 25%\n" for name in "abc"
    )
    with node_with(spec, site, tmp_path) as node:
        mix = [f"{name}=20:/{name}/page" for name in ("now", "a", "b", "c")]
        crowd = ["--rate", "60", "--duration", "10s", "--flash", "a=x10@2s+6s"]
        with Load(tmp_path, [node], mix, *crowd) as load:
            results = load.wait()
        outcomes = [(line["class"], line["outcome"]) for line in results]
    for name in ("now", "b", "c"):
        served = sum(one == (name, "accepted") for one in outcomes)
        total = sum(one[0] == name for one in outcomes)
        assert served >= (total if name == "now" else 0.98 * total), (name, served, total)
    assert ("a", "denied") in outcomes


def test_a_page_that_was_asked_for_changes_what_is_promised_at_every_node(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(("door", "room"), KIB))
    spec = "accessed(</door>) within 60s => </room>.available = always\n"
    with RunningCluster(site, tmp_path, spec, "ab", *PIPE) as cluster:
        assert [cluster.status(name)["classes"]["/room"]["always"] for name in "ab"] == [False, False]
        assert cluster.nodes["a"].get("/door/page").status == 200
        wait_for(lambda: cluster.status("b")["classes"]["/room"]["always"] or None, "the promise at b", 20)


def test_below_contention_nothing_is_denied_and_nothing_waits(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(FIVE, 16 * KIB))
    with node_with(FIVE_SPEC, site, tmp_path) as node:
        with Load(tmp_path, [node], EVENLY, "--rate", "40", "--duration", "5s") as load:
            load.wait()
        requests = node.log()
    assert {line["decision"] for line in requests} == {"served"}
    waits = sorted(float(str(line["queue_ms"])) for line in requests)
    assert waits[len(waits) * 9 // 10] < 1


def test_three_nodes_with_uneven_arrivals_then_one_is_killed_and_another_joins(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(FIVE, 16 * KIB))
    with RunningCluster(site, tmp_path, FIVE_SPEC, "abc", *PIPE) as cluster:
        a, b, c = (cluster.nodes[name] for name in "abc")
        with Load(tmp_path, [a, b, c], EVENLY, "--rate", "770", "--duration", "13s", spread="80,15,5") as load:
            load.wait()
        held = shares(cluster.requests(), 2, 2 + WINDOW_S)
        assert held == {f"/{name}": pytest.approx(share, abs=0.02) for name, share in FIVE.items()}
        assert any(line["decision"] == "redirected" for line in cluster.requests("a"))

        with Load(tmp_path, [a, b], EVENLY, "--rate", "400", "--duration", "12s") as load:
            wait_until_served(cluster, "ab", len(cluster.requests("ab")) + 1_000)
            c.process.kill()
            cluster.together("ab")
            without_c = float(cluster.requests("ab")[-1]["ts"])
            results = load.wait()
        # Those that had been sent to c met its end; nobody else's request is lost.
        assert {line.get("cause") for line in results if line["outcome"] == "failed"} <= ENDS_OF_A_NODE
        requests = cluster.requests("ab")
        began = float(requests[0]["ts"])
        held = shares(requests, without_c + 2 - began, without_c + 60 - began)
        assert held == {f"/{name}": pytest.approx(share, abs=0.03) for name, share in FIVE.items()}

        with Load(tmp_path, [a, b], EVENLY, "--rate", "400", "--duration", "60s"):
            cluster.add("d")
            cluster.together("abd")
            wait_until_served(cluster, "d", 100)
        views = primary_views(cluster, "a")
        assert views[-1][1] == ["a", "b", "d"]
        seen_by_b = dict(primary_views(cluster, "b"))  # each may have missed one that did not last
        assert seen_by_b[views[-1][0]] == ["a", "b", "d"]
        assert [(at, members) for at, members in views if seen_by_b.get(at, members) != members] == []


def primary_views(cluster: RunningCluster, name: str) -> list[tuple[int, list[str]]]:
    return [(line["index"], line["members"]) for line in cluster.events(name, "view") if line["primary"]]


def wait_until_served(cluster: RunningCluster, names: str, count: int) -> None:
    wait_for(lambda: len(cluster.requests(names)) >= count or None, f"{count} requests", 60)
