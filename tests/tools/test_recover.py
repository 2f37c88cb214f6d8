"""``qosweb recover``: a cluster that lost its majority continues from one disk, and grows again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from signal import Signals
from typing import TYPE_CHECKING

import pytest

from qosweb.cli import main
from tests.support.clusters import RunningCluster, make_site
from tests.support.nodes import COMMAND, RunningNode, environment, run_command
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

FIRST = "</a>.server_resource > 30%\n"
LATER = "</a>.server_resource > 40%\n"


class DurableCluster(RunningCluster):
    """A cluster whose nodes have data directories."""

    def _begin(self, name: str, *options: str, **more: object) -> RunningNode:
        return super()._begin(name, "--data-dir", str(self.data(name)), *options, **more)  # type: ignore[arg-type]

    def data(self, name: str) -> Path:
        return self.scratch / name / "data"

    def rules(self, name: str) -> list[str]:
        found: list[str] = self.status(name)["policy"]["in_force"]
        return found


def recover(*arguments: str, answer: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "recover", *arguments], input=answer or "", capture_output=True, text=True, env=environment(),
        timeout=60, check=False,
    )  # fmt: skip


def test_from_three_nodes_to_one_and_back_to_three(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", {"a": 100})
    with DurableCluster(site, tmp_path, FIRST, "abc") as cluster:
        assert run_command("reload", str(later(tmp_path)), "--admin", admin(cluster.nodes["b"])).returncode == 0
        wait_for(lambda: cluster.rules("a") == [LATER.strip()] or None, "the policy at a")
        running = recover("--data-dir", str(cluster.data("a")), "--yes")
        assert (running.returncode, running.stdout) == (2, "")
        assert f"a node is running on it, process {cluster.nodes['a'].process.pid}: stop it first" in running.stderr

        for name in "abc":
            cluster.nodes[name].stop(Signals.SIGKILL)
        for name in "bc":
            shutil.move(cluster.data(name), tmp_path / f"lost-{name}")
        declined = recover("--data-dir", str(cluster.data("a")), answer="yes\n")
        assert declined.returncode == 1
        assert "given up   b, c\n" in declined.stdout
        assert "Policy changes" in declined.stdout
        assert declined.stdout.endswith("nothing was changed\n")
        done = recover("--data-dir", str(cluster.data("a")), answer="qosweb\n")
        assert (done.returncode, done.stderr) == (0, "")
        cluster_id = done.stdout.rpartition("--cluster-id ")[2].split()[0]
        assert cluster_id.startswith("qosweb+")
        again = recover("--data-dir", str(cluster.data("a")), "--yes")
        assert again.returncode == 2
        assert "No recovery is needed" in again.stderr

        a = cluster.add("a")  # with the options it had before
        cluster.together("a")
        assert cluster.rules("a") == [LATER.strip()]
        assert cluster.status("a")["group"]["cluster_id"] == cluster_id
        assert [one["without"] for one in cluster.status("a")["group"]["recoveries"]] == [["b", "c"]]
        assert "recovered without b, c" in run_command("status", "--admin", admin(a)).stdout
        assert [line for line in a.stderr if "recovered" in line and "without b, c" in line]
        b = cluster.add("b")  # without the new id
        wait_for(lambda: any(f"'{cluster_id}'" in line for line in b.stderr) or None, "why b cannot join")
        assert cluster.status("a")["members"] == ["a"]
        b.stop()
        shutil.rmtree(cluster.data("b"))
        for name in "bc":
            cluster.add(name, "--cluster-id", cluster_id)
        cluster.together("abc")
        assert cluster.rules("c") == [LATER.strip()]
        cluster.nodes["a"].stop(Signals.SIGKILL)  # a majority again
        cluster.view_s("c", "bc", time.time() - 60)
        c = cluster.nodes["c"]
        assert c.stop() == 0
        cluster.add("c")  # its disk knows the new id
        cluster.together("bc")


def later(folder: Path) -> Path:
    path = folder / "later.webqos"
    path.write_text(LATER)
    return path


def admin(node: RunningNode) -> str:
    return f"127.0.0.1:{node.admin_port}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a stopped founder."""
    key = tmp_path / "key"
    subprocess.run([sys.executable, "-m", "cluster", "key", str(key)], check=True, capture_output=True)
    options = ("--key-file", str(key), "--group", "127.0.0.1:0", "--bootstrap", "--data-dir", str(tmp_path / "data"))
    with RunningNode(make_site(tmp_path / "site", {"a": 1}), tmp_path, *options) as node:
        wait_for(lambda: json.loads(node.admin("/status"))["primary"] or None, "a primary view")
        assert node.stop() == 0
    return tmp_path / "data"


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["recover", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("qosweb: error: ")
    assert err.count("\n") == 1
    return err


def test_mistakes_get_one_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No recovery is needed" in said(capsys, "--data-dir", data, "--yes")
    assert f"{tmp_path / 'none'}: no such directory" in said(capsys, "--data-dir", tmp_path / "none")
    assert f"give its parent, {data}" in said(capsys, "--data-dir", data / "group")
    assert "not the --data-dir of a cluster's node" in said(capsys, "--data-dir", tmp_path)
    assert "is not a directory" in said(capsys, "--data-dir", data / "group" / "group.db")
    assert "--data-dir" in said(capsys)
    shutil.copytree(data, tmp_path / "copy")
    assert "a copy of the other" in said(capsys, "--data-dir", data, "--data-dir", tmp_path / "copy")
    (data / "group" / "group.db").write_bytes(b"nonsense" * 1000)
    assert "is damaged" in said(capsys, "--data-dir", data)
