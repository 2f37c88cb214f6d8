"""Nodes of another version of the group protocol, the entries or the policy language.

Each is a process of this version with one number changed. The node, or its policy, is rejected with a log line on both
sides, and the nodes of the same version continue.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from signal import Signals
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters import KIB, RunningCluster, make_site
from tests.support.nodes import run_command, version
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.nodes import RunningNode

SPEC = "</a>.server_resource > 40%\n"
OTHER_SPEC = "</a>.server_resource > 60%\n"


FRANK = ("cluster.runtime.net.transport", "LOG_EVERY_S", 0.1)  # writes a line about every connection that it closes
OTHER_PROTOCOL = version(FRANK, ("cluster.runtime.net.handshake", "VERSION", 99))
OTHER_FORMAT = version(FRANK, ("qosweb.engine.replicated.entries", "FORMAT", 99))
LATER_LANGUAGE = version(FRANK, ("qosweb.webqos.model.model", "LANGUAGE", 99))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_site(tmp_path_factory.mktemp("peers") / "site", {"a": KIB})


@pytest.fixture(scope="module")
def cluster(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(site, tmp_path_factory.mktemp("cluster"), SPEC, "ab", command=version(FRANK)) as cluster:
        yield cluster


def says(node: RunningNode, *words: str) -> None:
    """Wait for a line that contains all these texts."""
    said = node.stderr
    wait_for(lambda: any(all(word in line for word in words) for line in said) or None, f"a line with {words}")


def put_policy(node: RunningNode, text: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{node.admin_port}/policy"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, text.encode(), method="PUT"), timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def served_alone(node: RunningNode) -> bool:
    reply = node.get("/a/page")
    return reply.status == 200 and reply.headers.get("qos-scope") == "local"


@pytest.mark.parametrize(
    ("command", "at_both"),
    [
        (OTHER_PROTOCOL, "of the group protocol, this process"),
        (OTHER_FORMAT, "run the same version on both"),
    ],
    ids=["protocol", "entries"],
)
def test_a_node_of_another_version_is_rejected_when_it_joins(
    cluster: RunningCluster, command: list[str], at_both: str
) -> None:
    name = f"x{len(cluster.nodes)}"
    stranger = cluster.add(name, command=command)
    says(stranger, "closed the connection", at_both)
    says(cluster.nodes["a"], "closed the connection", at_both)
    assert stranger.readiness() == "cluster: not in a primary view\n"
    assert served_alone(stranger)
    cluster.together("ab")
    assert not [view for at in "ab" for view in cluster.events(at, "view") if name in view["members"]]
    assert put_policy(cluster.nodes["b"], SPEC)[0] == 200
    assert stranger.stop() == 0
    assert not any("Traceback" in line for node in cluster.nodes.values() for line in node.stderr)


def test_a_policy_that_not_all_nodes_can_read_is_rejected_by_all(cluster: RunningCluster) -> None:
    before = cluster.status("a")["policy"]["hash"]
    later = cluster.add("later", command=LATER_LANGUAGE)
    wait_for(lambda: cluster.status("a")["members"] == ["a", "b", "later"] or None, "it is a member", 60)
    wait_for(lambda: all(one["capacity_bytes_per_s"] for one in cluster.status("later")["nodes"].values()) or None, "")
    status, text = put_policy(later, OTHER_SPEC)
    assert status == 409
    assert "all nodes reject the policy: it is in language 99, but a reads up to 2" in text
    for name in ("a", "b", "later"):
        says(cluster.nodes[name], "all nodes reject a policy from later")
        assert cluster.status(name)["policy"]["hash"] == before
    status, _ = put_policy(cluster.nodes["a"], OTHER_SPEC)  # in a language that all read
    assert status == 200
    wait_for(lambda: cluster.status("later")["policy"]["hash"] != before or None, "the policy of a at the other one")
    assert later.stop() == 0
    wait_for(lambda: cluster.status("a")["members"] == ["a", "b"] or None, "it has left", 60)


def test_a_policy_of_megabytes_passes(cluster: RunningCluster) -> None:
    text = SPEC + f"# {'x' * 100}\n" * 30_000
    assert put_policy(cluster.nodes["b"], text)[0] == 200
    wait_for(lambda: len(cluster.nodes["a"].admin("/policy")) == len(text) or None, "it is in force at a")
    assert put_policy(cluster.nodes["a"], SPEC)[0] == 200


def test_a_node_that_cannot_read_the_clusters_policy_is_rejected(site: Path, tmp_path: Path) -> None:
    with RunningCluster(site, tmp_path, SPEC, "a", command=LATER_LANGUAGE) as cluster:
        earlier = cluster.add("b", command=version(FRANK))
        for node in cluster.nodes.values():
            says(node, "understands language 2, and what", "is in language 99: run the same version on both")
        assert served_alone(earlier)
        cluster.together("a")
        assert not [view for view in cluster.events("a", "view") if "b" in view["members"]]


def test_a_data_directory_of_another_version_is_rejected(site: Path, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    with RunningCluster(site, tmp_path, SPEC, "a", *data, command=OTHER_FORMAT) as cluster:
        cluster.nodes["a"].stop(Signals.SIGKILL)
        done = run_command(
            "serve", "--root", str(site), "--name", "a", "--spec", str(cluster.spec), "--key-file", str(cluster.key),
            "--bootstrap", "--group", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--admin", "none", *data,
        )  # fmt: skip
    assert done.returncode == 2
    assert "cannot be read by this version: it is of format 99, this version reads 1 and 2" in done.stderr
    assert "Traceback" not in done.stderr
