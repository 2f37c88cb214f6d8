"""Installed proxies start with the generated configuration, forward requests, and stop."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.comparison import GUARANTEED, PEERS_KNOWN
from loadgen.experiments.nodes import NodeProcesses
from loadgen.experiments.processes import CannotRun
from loadgen.experiments.proxies.proxy import Proxy, ProxyTask
from loadgen.experiments.site import make_site

if TYPE_CHECKING:
    from pathlib import Path

    from loadgen.experiments.comparison import Peer


@pytest.mark.parametrize("peer", PEERS_KNOWN, ids=lambda peer: peer.title)
def test_a_peer_passes_pages_on(tmp_path: Path, peer: Peer) -> None:
    if not peer.installed():
        pytest.skip(f"needs {peer.needs} (./dev setup --full)")
    root = make_site(tmp_path / "site", dict.fromkeys(GUARANTEED, 1000))
    with NodeProcesses(tmp_path, ["--root", str(root)], cluster=False) as nodes:
        upstream = nodes.begin("slow").wait()
        with peer.begin("peer", ProxyTask(upstream, tmp_path / "peer", GUARANTEED, 60.0, 0.5)) as proxy:
            for name in GUARANTEED:
                with urllib.request.urlopen(f"{proxy.url}{name}/page.html", timeout=10) as reply:
                    assert len(reply.read()) == 1000
        with pytest.raises(urllib.error.URLError, match="refused"):
            urllib.request.urlopen(f"{proxy.url}/a/page.html", timeout=10)


def test_pipe_is_divided_by_shares_and_failed_start_is_reported(tmp_path: Path) -> None:
    root = make_site(tmp_path / "site", {"/a": 10})
    with NodeProcesses(tmp_path, ["--root", str(root)], cluster=False) as nodes:
        task = ProxyTask(nodes.begin("slow").wait(), tmp_path / "peer", {"/a": 1.0}, 60.0, 0.5)
        divided = task._replace(parts={"/a": 0.6, "/b": 0.39, "/c": 0.01}, capacity_per_s=50.0)
        assert divided.rates() == {"/a": 30.0, "/b": 19.5, "/c": 0.5}
        assert divided.places(10) == {"/a": 6, "/b": 4, "/c": 1}
        with pytest.raises(CannotRun, match="sh exited unexpectedly: a bad file"):
            Proxy("peer", task, lambda port: f"{port}", lambda file: ["sh", "-c", f"test -s {file} && echo a bad file"])
