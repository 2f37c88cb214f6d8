"""The emergency block list of real nodes: commands, responses, logs, restarts, and partitions with namespaces."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from functools import partial
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

import pytest

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from loadgen.experiments.nodes import NodePlace, NodeProcess, NodeProcesses
from tests.support.clusters import RunningCluster, make_site
from tests.support.nodes import COMMAND, RunningNode, environment, run_command
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SPEC = "</a>.server_resource = 50%\n"
HERE = "127.0.0.1"


def qosweb(node: RunningNode, *words: str) -> str:
    done = run_command(*words, "--admin", f"{HERE}:{node.admin_port}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(node: RunningNode, method: str, body: object) -> tuple[int, str]:
    request = urllib.request.Request(
        f"http://{HERE}:{node.admin_port}/blocks", json.dumps(body).encode(), method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def listed(node: RunningNode) -> list[str]:
    return sorted(one["target"] for one in json.loads(node.admin("/blocks"))["blocks"])


def test_a_single_node(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", {"a": 10, "b": 10})
    with RunningNode(site, tmp_path) as node, node.connect() as connection:
        for _ in range(3):
            assert connection.get("/a/page").status == 200  # the third from the fast path
        refused = run_command("block", HERE, "--admin", f"{HERE}:{node.admin_port}")
        assert refused.returncode == 2
        assert f"{HERE}/32 overlaps 127.0.0.0/8, the loopback network; --force blocks it nevertheless" in refused.stderr
        said = qosweb(node, "block", HERE, "--path", "/a", "--for", "1h", "--reason", "a test", "--force")
        assert said.startswith("127.0.0.1/32 /a is blocked for 1h at n1; reference ")
        reference = said.split()[-1]
        answer = connection.get("/a/page")  # on the connection that was there before
        assert answer.status == 403
        assert answer.headers["qos-decision"] == f"blocked; reference={reference}"
        assert reference in answer.body.decode()
        assert connection.get("/b/page").status == 200
        shown = qosweb(node, "blocks")
        assert "127.0.0.1/32 /a" in shown
        assert ": a test" in shown
        assert reference in shown
        assert node.metric("qosweb_block_list_entries") == 1
        assert node.metric("qosweb_requests_total", **{"class": "default", "outcome": "blocked"}) == 1
        assert json.loads(node.admin("/status"))["blocks"]["blocks"][0]["id"] == reference
        qosweb(node, "unblock", HERE, "--path", "/a/")
        assert connection.get("/a/page").status == 200
        qosweb(node, "block", HERE, "--path", "/%61/", "--force")  # the path as in a request
        assert connection.get("/a/page").status == 403
        qosweb(node, "unblock", HERE, "--path", "/a")
        none = run_command("unblock", HERE, "--admin", f"{HERE}:{node.admin_port}")
        assert none.returncode == 1
        assert "a block of a path needs --path" in none.stdout
        bad: list[object] = [
            {}, {"target": "x"}, {"target": HERE, "path": "a"}, {"target": HERE, "more": 1}, [],
            {"target": HERE, "for_s": -1}, {"target": HERE, "reason": "x" * 1000}, {"target": HERE, "reason": "a\nb"},
        ]  # fmt: skip
        for body in bad:
            status, text = ask(node, "PUT", body)
            assert status == 400, text
        assert ask(node, "PUT", {"target": "::/0"})[0] == 409  # contains loopback
        assert ask(node, "PUT", {"target": HERE, "for_s": 0.05, "force": True})[0] == 200
        wait_for(lambda: listed(node) == [] or None, "the block to end")
        assert connection.get("/a/page").status == 200
        node.stop()
        assert [line["decision"] for line in node.log()].count("blocked") == 2


def test_clients_behind_a_proxy(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", {"a": 10})
    with RunningNode(site, tmp_path, "--trust-proxy", f"{HERE}/32,198.51.100.0/24") as node, node.connect() as proxy:

        def status_of(client: str) -> int:
            return proxy.get("/a/page", f"X-Forwarded-For: {client}").status

        for _ in range(3):  # both heads are known to the fast path
            assert status_of("203.0.113.7") == status_of("192.0.2.1") == 200
        qosweb(node, "block", "203.0.113.0/24")
        for _ in range(3):
            assert status_of("203.0.113.7") == 403
            assert status_of("192.0.2.1") == 200
        status, text = ask(node, "PUT", {"target": "198.51.100.7"})
        assert status == 409
        assert "trusted proxies" in text
        qosweb(node, "unblock", "203.0.113.0/24")
        assert status_of("203.0.113.7") == status_of("192.0.2.1") == 200


def test_a_cluster_and_restarts(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", {"a": 10})
    with RunningCluster(site, tmp_path, SPEC, "abc") as cluster:
        nodes = cluster.nodes
        # a node of the cluster is not blocked by mistake
        assert ask(nodes["a"], "PUT", {"target": "127.0.0.0/8"})[0] == 409
        qosweb(nodes["a"], "block", "203.0.113.0/24", "--reason", "attack")
        qosweb(nodes["b"], "block", HERE, "--path", "/a", "--force")
        for node in nodes.values():
            wait_for(lambda: listed(node) == ["127.0.0.1/32", "203.0.113.0/24"] or None, "both blocks")  # noqa: B023
            assert node.get("/a/page").status == 403
        nodes["c"].stop(SIGKILL)
        cluster.together("ab")
        qosweb(nodes["a"], "unblock", "203.0.113.0/24")
        qosweb(nodes["b"], "block", "198.51.100.7")
        cluster.add("c")  # without a disk: it gets the list of the others
        cluster.together("abc")
        for node in nodes.values():
            wait_for(lambda: listed(node) == ["127.0.0.1/32", "198.51.100.7/32"] or None, "one list")  # noqa: B023


@pytest.mark.parametrize("has_cluster", [True, False])
def test_a_restart_keeps_the_list(tmp_path: Path, *, has_cluster: bool) -> None:
    site = make_site(tmp_path / "site", {"a": 10})
    options = ["--data-dir", str(tmp_path / "data")]
    if has_cluster:
        key = tmp_path / "key"
        subprocess.run([*COMMAND[:1], "-m", "cluster", "key", str(key)], check=True, capture_output=True)
        options += ["--bootstrap", "--key-file", str(key), "--group", f"{HERE}:0"]
    with RunningNode(site, tmp_path, *options) as node:
        qosweb(node, "block", "203.0.113.0/24")
        qosweb(node, "block", "198.51.100.0/24", "--for", "1h")
        qosweb(node, "block", "192.0.2.0/24", "--for", "1s")
        qosweb(node, "block", "192.0.2.7")
        qosweb(node, "unblock", "192.0.2.7")
        node.stop(SIGKILL)
    with RunningNode(site, tmp_path, *options) as node:
        wait_for(
            lambda: listed(node) == ["198.51.100.0/24", "203.0.113.0/24"] or None, "the list, without what is over"
        )
        left_s = json.loads(node.admin("/blocks"))["blocks"]
        assert 3000 < next(one["left_s"] for one in left_s if one["target"] == "198.51.100.0/24") < 3600


def test_a_block_list_that_cannot_be_read_or_stored(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", {"a": 10})
    data = tmp_path / "data"
    data.mkdir()
    (data / "blocks").write_bytes(b"not a list")
    refused = run_command("serve", "--root", str(site), "--data-dir", str(data), "--listen", f"{HERE}:0")
    assert refused.returncode == 2
    assert "the block list cannot be read" in refused.stderr
    (data / "blocks").unlink()
    (data / "blocks.part").mkdir()  # nothing can be written there
    with RunningNode(site, tmp_path, "--data-dir", str(data)) as node:
        qosweb(node, "block", "203.0.113.0/24")
        assert listed(node) == ["203.0.113.0/24"]
        wait_for(lambda: "the block list cannot be stored" in "".join(node.stderr) or None, "the message")


# ---- a partition

NAMES = ("n1", "n2", "n3", "n4", "n5")


class Network:
    """Five nodes in namespaces, and the commands of their operators."""

    def __init__(self, nodes: NodeProcesses, network: NamespaceNetwork, folder: Path) -> None:
        self.nodes = nodes
        self.network = network
        self.folder = folder

    def begin(self, name: str) -> NodeProcess:
        spaces = self.network
        place = NodePlace(spaces.address(name), tuple(spaces.at(name)), partial(spaces.within, name))
        return self.nodes.begin(name, place, ["--data-dir", str(self.folder / f"data-{name}")])

    def wait_until_met(self, name: str, size: int) -> None:
        """Wait until a node of a part of this size merges its list with others, or has done so."""

        def has_met() -> bool | None:
            found = self._blocks(self.nodes[name])
            return (bool(found) and (len(found["nodes"]) != size or found["merging"])) or None

        wait_for(has_met, "the sides to meet")

    def run(self, name: str, *words: str) -> None:
        admin = self.nodes[name].admin.removeprefix("http://")
        command = [*self.network.at(name), *COMMAND, *words, "--admin", admin]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    def wait_for_common_list(self, *names: str) -> list[str]:
        """Wait until these nodes share their list with each other and with no others."""

        def common() -> list[str] | None:
            found = [self._blocks(self.nodes[name]) for name in names]
            ids = [sorted(one["id"] for one in blocks.get("blocks", ())) for blocks in found]
            is_common = all(blocks.get("nodes") == sorted(names) and not blocks["merging"] for blocks in found)
            return [one["target"] for one in found[0]["blocks"]] if is_common and ids[1:] == ids[:-1] else None

        found: list[list[str]] = []
        wait_for(lambda: found.append(now) or True if (now := common()) is not None else None, f"one list at {names}")  # type: ignore[func-returns-value]
        return sorted(found[-1])

    def _blocks(self, node: NodeProcess) -> dict[str, Any]:
        return dict((node.status() or {}).get("blocks", {}))


@pytest.mark.long
def test_blocks_on_both_sides_of_a_partition(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", {"a": 10})
    try:
        spaces = NamespaceNetwork(NAMES)
        spaces.__enter__()
    except NamespacesUnavailable as reason:
        pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {reason}")
    try:
        with NodeProcesses(tmp_path, ["--root", str(site)], cluster=True) as nodes:
            network = Network(nodes, spaces, tmp_path)
            for name in NAMES:
                node = network.begin(name)
                if name == NAMES[0]:
                    node.wait()
            nodes.settle()
            play(network)
    finally:
        spaces.__exit__()


def play(network: Network) -> None:
    three, two = NAMES[:3], NAMES[3:]
    run, spaces, nodes = network.run, network.network, network.nodes
    run("n1", "block", "203.0.113.0/24")
    run("n5", "block", "198.51.100.0/24")
    network.wait_for_common_list(*NAMES)
    spaces.part(three, two)
    network.wait_for_common_list(*three)
    network.wait_for_common_list(*two)
    run("n2", "unblock", "203.0.113.0/24")  # saw the first block
    run("n4", "block", "203.0.113.0/24", "--reason", "again")  # a new operation
    run("n5", "unblock", "198.51.100.0/24")
    run("n3", "block", "192.0.2.1")
    assert network.wait_for_common_list(*three) == ["192.0.2.1/32", "198.51.100.0/24"]
    assert network.wait_for_common_list(*two) == ["203.0.113.0/24", "203.0.113.0/24"]
    spaces.heal()
    network.wait_until_met("n1", 3)
    spaces.part(("n1", "n4"), ("n2", "n3", "n5"))  # in the middle of the merge, or just after it
    network.wait_for_common_list("n1", "n4")
    network.wait_for_common_list("n2", "n3", "n5")
    run("n5", "block", "192.0.2.2")
    spaces.heal()
    network.wait_until_met("n1", 2)
    nodes["n3"].kill()  # in the middle of the merge, or just after it
    merged = ["192.0.2.1/32", "192.0.2.2/32", "203.0.113.0/24"]
    assert network.wait_for_common_list("n1", "n2", "n4", "n5") == merged
    nodes.all = [node for node in nodes.all if node.name != "n3"]
    network.begin("n3").wait()  # with its disk, and the list that it had
    assert network.wait_for_common_list(*NAMES) == merged
