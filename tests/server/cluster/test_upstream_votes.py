"""Votes on shared upstream servers in a cluster of processes: all nodes agree which server is out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.clusters import RunningCluster
from tests.support.misbehaving import MisbehavingServer
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.nodes import RunningNode


def answering(name: bytes, port: int = 0) -> MisbehavingServer:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(name) + name
    return MisbehavingServer(lambda talk: talk.send(answer), port)


def table(name: str, port: int, more: str = "") -> str:
    return f'[[upstream]]\nname = "{name}"\nurl = "http://127.0.0.1:{port}"\nscope = "cluster"\n{more}\n'


def health(cluster: RunningCluster, node: str, server: str) -> str:
    found: str = cluster.status(node)["upstreams"][server]["health"]
    return found


def wait_until_out(cluster: RunningCluster, node: str, server: str) -> None:
    wait_for(lambda: health(cluster, node, server) == "out" or None, f"{server} is out at {node}")


def wait_until_named(cluster: RunningCluster, node: str, differences: list[str]) -> None:
    wait_for(lambda: cluster.status(node)["upstreams_disagree"] == differences or None, f"{node} names them")


def test_idle_nodes_follow_the_node_that_has_traffic(tmp_path: Path) -> None:
    with answering(b"one") as one, answering(b"two") as two:
        config = tmp_path / "upstreams.toml"
        config.write_text(table("one", one.port) + table("two", two.port))
        with RunningCluster(None, tmp_path, "", "abc", "--config", str(config)) as cluster:
            a, b = cluster.nodes["a"], cluster.nodes["b"]
            name = a.get("/x").body.decode()  # the server that has the traffic of a
            victim = {"one": one, "two": two}[name]
            victim.__exit__()
            wait_for(lambda: (a.get("/x"), health(cluster, "a", name) == "out")[1] or None, "a ejects it")
            for node in "bc":
                wait_until_out(cluster, node, name)
                status = cluster.status(node)["upstreams"][name]
                assert (status["reason"], status["votes"]) == ("out at a", {"a": "out", "b": "unknown", "c": "unknown"})
                assert cluster.status(node)["upstreams_disagree"] == []
            wait_for(lambda: any(f"upstream {name} is out: out at a" in line for line in b.stderr) or None, "a message")
            wait_for(lambda: (name, "out", "out at a") in upstream_events(b) or None, "an event in the log")
            with answering(name.encode(), victim.port):
                wait_for(lambda: (b.get("/x"), health(cluster, "b", name) == "in")[1] or None, "b tries it, and votes")
                wait_for(lambda: health(cluster, "c", name) == "in" or None, "c follows b")


def upstream_events(node: RunningNode) -> list[tuple[str, str, str]]:
    lines = [json.loads(line) for line in node.access_log.read_text().splitlines()]
    return [(one["upstream"], one["health"], one["reason"]) for one in lines if one.get("event") == "upstream"]


def test_tables_that_disagree_are_named(tmp_path: Path) -> None:
    with answering(b"one") as one:
        config, other = tmp_path / "upstreams.toml", tmp_path / "other.toml"
        config.write_text(table("one", one.port))
        other.write_text(table("one", one.port, "weight = 3\nslots = 9"))
        with RunningCluster(None, tmp_path, "", "a", "--config", str(config)) as cluster:
            b = cluster.add("b", "--config", str(other))
            cluster.together("ab")
            expected = ["upstream one: weight is 1 at a, 3 at b", "upstream one: slots is 200 at a, 9 at b"]
            for node in "ab":
                wait_until_named(cluster, node, expected)
            assert any("tables of upstream servers disagree: upstream one: slots" in line for line in b.stderr)
