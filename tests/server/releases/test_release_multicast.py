"""Releases by multicast between real nodes (loopback): files arrive, a node that missed them fetches, faults."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

from tests.server.releases.test_publishing import SPEC, SiteCluster, publish, releases, serves, write_site
from tests.support.nodes import run_command
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.nodes import RunningNode


def multicast(node: RunningNode) -> dict[str, Any]:
    found: dict[str, Any] = releases(node)["multicast"]
    return found


def group() -> tuple[str, str]:
    return "--multicast", f"239.255.71.10:{20_000 + random.randrange(10_000)}%lo"


def has_members(cluster: SiteCluster, names: str) -> None:
    for name in names:
        wait_for(lambda name=name: multicast(cluster.nodes[name])["members"] == list(names) or None, f"{name} to join")  # type: ignore[misc]


def test_nodes_get_a_release_by_multicast_and_fetch_what_they_missed(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", "one")
    with SiteCluster(None, tmp_path, SPEC, "abc", *group()) as cluster:
        a, b, c = (cluster.nodes[name] for name in "abc")
        has_members(cluster, "abc")
        assert publish(b, site)["number"] == 1
        for node in (a, c):
            serves(node, 1)
            assert multicast(node)["files"] == 4  # with the manifest
            assert len(node.get("/large.bin").body) == 2_400_000
        assert (multicast(b)["files"], multicast(b)["sent"]) == (0, 1)
        c.stop(SIGKILL)
        cluster.together("ab")
        write_site(site, "two")
        assert publish(b, site)["number"] == 2
        assert multicast(a)["files"] == 7  # only what is new
        again = cluster.add("c")
        serves(again, 2)
        assert again.get("/parts/style.css").body == b"part two"
        assert multicast(again)["files"] == 0


def test_the_service_continues_when_the_coordinator_dies_during_a_transfer(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", "one")
    with SiteCluster(None, tmp_path, SPEC, "abc", *group(), "--capacity", "8MB/s") as cluster:
        a, b, c = (cluster.nodes[name] for name in "abc")
        has_members(cluster, "abc")
        publish(c, site)
        (site / "film.bin").write_bytes(random.Random(1).randbytes(24_000_000))
        with ThreadPoolExecutor() as pool:
            publishing = pool.submit(publish, c, site)
            wait_for(lambda: multicast(b)["receiving"] > 1_000_000 or None, "the transfer")
            a.stop(SIGKILL)
            for node in (b, c):  # how fast they answer is measured by `./dev campaign multicast`
                assert node.get("/").body == b"page one"
            assert not publishing.done()
            assert publishing.result()["number"] == 2
        for node in (b, c):
            serves(node, 2)
            assert len(node.get("/film.bin").body) == 24_000_000


def test_a_group_that_is_none_is_refused(tmp_path: Path) -> None:
    serve = ("serve", "--site", "--data-dir", str(tmp_path), "--bootstrap", "--key-file", str(tmp_path / "key"))
    done = run_command(*serve, "--multicast", "10.1.2.3:7000")
    assert done.returncode == 2
    assert "10.1.2.3 is not a multicast address" in done.stderr
    assert "--bootstrap or --join" in run_command(*serve[:4], "--multicast", "239.1.2.3:7000").stderr
