"""SIGHUP changes the policy only if the file of --spec has changed: it does not undo `qosweb reload`."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING

from qosweb.cli import main
from tests.support.clusters import RunningCluster
from tests.support.nodes import RunningNode
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FIRST, SECOND, THIRD = (f"</page.html>.server_resource > {share}%\n" for share in (10, 20, 30))


def hang_up(node: RunningNode, times: int) -> str:
    """What the node says after its n-th SIGHUP."""
    node.kill(Signals.SIGHUP)

    def said() -> str | None:
        found = [line for line in node.stderr if "reloaded" in line]
        return found[-1] if len(found) == times else None

    return wait_for(said, "the reload")


def reload_policy(node: RunningNode, folder: Path, text: str) -> None:
    other = folder / "other.webqos"
    other.write_text(text)
    assert main(["reload", str(other), "--admin", f"127.0.0.1:{node.admin_port}"]) == 0


def test_sighup_does_not_undo_a_reload(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "site.webqos"
    spec.write_text(FIRST)
    with RunningNode(write_site(tmp_path / "site"), tmp_path, "--spec", str(spec)) as node:
        reload_policy(node, tmp_path, SECOND)
        assert f"policy: unchanged, as {spec} has not changed since it was last read" in hang_up(node, 1)
        assert node.admin("/policy") == SECOND
        spec.write_text(THIRD)
        assert f"policy: changed to {spec};" in hang_up(node, 2)
        wait_for(lambda: node.admin("/policy") == THIRD or None, "the policy of the file")
        reload_policy(node, tmp_path, FIRST)
        spec.write_text(FIRST)
        assert f"policy: unchanged, as {spec} is in force already" in hang_up(node, 3)
        spec.write_text("</page.html>.server_resource > 200%\n")
        assert "not reloaded" in hang_up(node, 4)
        spec.write_text(FIRST)
        assert "has not changed since it was last read" in hang_up(node, 5)
        assert node.admin("/policy") == FIRST
        assert sum("is in force" in line and line.startswith("qosweb: policy ") for line in node.stderr) == 3
    capfd.readouterr()


def test_a_node_that_joined_does_not_bring_its_own_policy(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site")
    with RunningCluster(site, tmp_path, FIRST, "ab") as cluster:
        assert "policy: unchanged, as there is no --spec;" in hang_up(cluster.nodes["b"], 1)
        assert [cluster.nodes[name].admin("/policy") for name in "ab"] == [FIRST, FIRST]
