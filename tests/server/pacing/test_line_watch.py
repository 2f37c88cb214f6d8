"""TCP_INFO of a real connection, and a node that looks for its line."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from qosweb.server.pacing import tcp_info
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from qosweb.engine.laws.line_samples import TcpInfo


@pytest.mark.skipif(not tcp_info.is_available(), reason="needs TCP_INFO of Linux 5.5 or later")
def test_the_figures_of_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            before = tcp_info.read(server)
            assert before.is_idle
            server.sendall(bytes(30_000))
            got = 0
            while got < 30_000:
                got += len(client.recv(1 << 16))
            after = wait_for(lambda: acknowledged(server), "the acknowledgements")
            assert after.bytes_acked - before.bytes_acked == 30_000
            assert after.bytes_sent == 30_000
            assert after.bytes_retransmitted == 0
            assert 500 <= after.mss <= 65_536
            assert 0 < after.min_rtt <= after.rtt * 8 < 80_000_000
        with pytest.raises(OSError, match="descriptor"):
            tcp_info.read(server)


def acknowledged(server: socket.socket) -> TcpInfo | None:
    info = tcp_info.read(server)
    return info if info.is_idle else None


def test_a_node_shows_the_state_of_its_line_and_serves(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page").write_bytes(bytes(100_000))
    (tmp_path / "site.webqos").write_text("</a>.server_resource > 10%\n")
    with RunningNode(tmp_path / "site", tmp_path, "--spec", str(tmp_path / "site.webqos"), "--find-line") as node:
        for _ in range(20):
            assert len(node.get("/page").body) == 100_000
        line = json.loads(node.admin("/status"))["capacity"]["line"]
        assert line["state"] in ("released", "holding", "draining", "unavailable")
