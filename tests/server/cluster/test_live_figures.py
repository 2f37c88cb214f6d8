"""Live figures and access facts with real nodes: ages, a stalled node, a node that leaves, and clients that move."""

from __future__ import annotations

import re
from functools import partial
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters import RunningCluster
from tests.support.raw import RawConnection
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEC = """\
set lifetime = 10s
client accessed(</index.html>) within 1h => </page.html>.available = always
</thick.html>.server_resource > 40%
last_access < 1h => </rare.html>.available = always
"""
NAMES = "abc"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    folder = tmp_path_factory.mktemp("live")
    site = write_site(folder / "site")
    (site / "rare.html").write_text("<p>seldom read")
    with RunningCluster(site, folder, SPEC, NAMES, "--capacity", "4MB/s") as running:
        yield running


def live(cluster: RunningCluster, at: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.status(at)["live"]
    return found


def metrics(cluster: RunningCluster, at: str) -> str:
    return cluster.nodes[at].admin("/metrics")


def ages(cluster: RunningCluster, at: str, of: str) -> list[float]:
    return [live(cluster, at)[name]["age_s"] for name in of]


def all_fresh(cluster: RunningCluster, at: str, of: str, within_s: float = 0.2) -> bool:
    return set(of) <= live(cluster, at).keys() and max(ages(cluster, at, of)) < within_s


def wait_for_fresh(cluster: RunningCluster, at: str, of: str) -> None:
    wait_for(lambda: all_fresh(cluster, at, of), f"fresh figures of {of} at {at}", 60)


def test_every_node_shows_the_figures_of_all_nodes(cluster: RunningCluster) -> None:
    for at in NAMES:
        wait_for_fresh(cluster, at, NAMES)
    wait_for(lambda: live(cluster, "a")["b"]["scope"] == "cluster", "a shows that b decides with the cluster", 30)
    found = live(cluster, "a")["b"]
    assert found["capacity_bytes_per_s"] == 4 << 20
    assert found["capacity_source"] == "set"
    before = found["served_per_s"]
    assert before >= 0

    def served() -> bool:  # a later report replaces an earlier one that has not arrived
        cluster.nodes["b"].get("/page.html")
        shown = live(cluster, "c")["b"]
        return shown["served_per_s"] > 0 and any(one["service_p99_ms"] for one in shown["classes"].values())

    wait_for(served, "c shows the requests of b", 30)


def test_the_metrics_of_every_node_have_the_classes_of_all_nodes(cluster: RunningCluster) -> None:
    def value(at: str, name: str, labels: str) -> float | None:
        found = re.search(rf"^qosweb_node_{name}{{{re.escape(labels)}}} (\S+)$", metrics(cluster, at), re.MULTILINE)
        return None if found is None else float(found[1])

    wait_for(lambda: value("a", "capacity_bytes_per_second", 'node="c",source="set"') == 4 << 20, "the capacity of c")
    for _ in range(20):
        cluster.nodes["b"].get("/thick.html")
    labels = 'class="/thick.html",node="b"'
    wait_for(lambda: (value("c", "class_wait_p99_seconds", labels) or -1) > 0, "c knows how long requests at b waited")
    assert value("c", "class_service_p99_seconds", labels) is not None
    assert value("c", "class_queue_entries", labels) == 0
    assert value("c", "class_denied_requests_per_second", labels) == 0

    def is_served() -> bool:
        cluster.nodes["b"].get("/thick.html")
        return (value("c", "class_served_requests_per_second", labels) or 0) > 0

    wait_for(is_served, "c knows the rate at b")


def test_a_stalled_node_makes_no_other_figures_old(cluster: RunningCluster) -> None:
    process = cluster.nodes["c"].process
    process.send_signal(SIGSTOP)
    try:
        wait_for(lambda: live(cluster, "a")["c"]["age_s"] > 1.0, "the figures of c are old", 60)
        for at in "abab":
            wait_for_fresh(cluster, at, "ab")
        (line,) = [
            line
            for line in metrics(cluster, "a").splitlines()
            if line.startswith('qosweb_node_figures_age_seconds{node="c"}')
        ]
        assert float(line.split()[-1]) > 1.0
    finally:
        process.send_signal(SIGCONT)
    wait_for(lambda: all(all_fresh(cluster, at, NAMES) for at in NAMES), "fresh figures again", 60)


def test_an_access_at_one_node_counts_at_the_others(cluster: RunningCluster) -> None:
    """The class of /page.html depends on an earlier access to /index.html, which was at another node."""
    first = cluster.nodes["b"].get("/page.html").headers["qos-class"]
    cluster.nodes["a"].get("/index.html")
    wait_for(lambda: cluster.nodes["b"].get("/page.html").headers["qos-class"] != first, "b knows it", 30)
    wait_for(lambda: cluster.nodes["c"].get("/page.html").headers["qos-class"] != first, "c knows it", 30)


def class_of(cluster: RunningCluster, at: str, client: str, path: str) -> str:
    """The class of a request by this client, at this node."""
    with RawConnection(cluster.nodes[at].port, source=client) as connection:
        return connection.get(path, "Connection: close").headers["qos-class"]


def has_class(cluster: RunningCluster, at: str, client: str, expected: str) -> bool:
    return class_of(cluster, at, client, "/page.html") == expected


def wait_for_class(cluster: RunningCluster, client: str, expected: str) -> None:
    for at in NAMES:
        wait_for(partial(has_class, cluster, at, client, expected), f"{at} knows what {client} had", 30)


def test_a_client_that_changes_nodes_keeps_its_class_and_others_do_not_get_it(cluster: RunningCluster) -> None:
    stranger = "127.0.0.20"
    unknown = class_of(cluster, "a", stranger, "/page.html")
    for number, first in enumerate(NAMES, 21):
        client = f"127.0.0.{number}"
        assert class_of(cluster, first, client, "/page.html") == unknown
        class_of(cluster, first, client, "/index.html")
        known = class_of(cluster, first, client, "/page.html")
        assert known != unknown
        wait_for_class(cluster, client, known)
    assert {class_of(cluster, at, stranger, "/page.html") for at in NAMES} == {unknown}


def test_the_last_access_to_a_page_counts_at_the_other_nodes(cluster: RunningCluster) -> None:
    client = "127.0.0.30"
    never = class_of(cluster, "a", client, "/rare.html")
    class_of(cluster, "a", client, "/index.html")  # a later fact: b learns of it with the first one, or after it
    before = class_of(cluster, "a", "127.0.0.31", "/page.html")
    wait_for(lambda: class_of(cluster, "b", client, "/page.html") != before, "b knows what a had", 30)
    assert class_of(cluster, "b", client, "/rare.html") != never
