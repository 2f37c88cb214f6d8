"""TLS listener: connections count from their accept, also if they never finish their handshake."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.support.nodes import RunningNode
from tests.support.tls import client_context, write_certificate
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def _start(tmp_path: Path, *options: str) -> tuple[RunningNode, Path]:
    certificate, key = write_certificate(tmp_path / "tls")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page.txt").write_bytes(b"page")
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key), "--header-timeout", "2min")
    return RunningNode(tmp_path / "site", tmp_path, *tls, *options), certificate


def test_silent_sockets_give_way_to_good_clients(tmp_path: Path) -> None:
    node, certificate = _start(tmp_path, "--max-connections", "20", "--client-share", "100%")
    with node, ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=20))
        wait_for(lambda: node.metric("qosweb_connections_refused_total", reason="displaced") >= 180, "displacement")
        assert node.metric("qosweb_connections") <= 20
        for _ in range(30):
            with node.connect(tls=client_context(certificate)) as good:
                assert good.get("/page.txt").body == b"page"
        wait_for(lambda: node.metric("process_open_fds") < 60, "the descriptors of the displaced to be given back")


def test_silent_sockets_of_one_client_are_limited(tmp_path: Path) -> None:
    node, certificate = _start(tmp_path, "--max-connections-per-client", "5")
    with node, ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port), 20, ("127.0.0.2", 0)))
            for _ in range(8)
        ]
        wait_for(lambda: node.metric("qosweb_connections_refused_total", reason="client_limit") == 3, "three refusals")
        closed = 0
        for one in silent:
            one.setblocking(False)
            try:
                closed += one.recv(1) == b""
            except BlockingIOError:
                continue
            except ConnectionResetError:
                closed += 1
        assert closed == 3
        with node.connect(tls=client_context(certificate)) as other:
            assert other.get("/page.txt").status == 200


def test_sigterm_does_not_wait_for_handshakes(tmp_path: Path) -> None:
    node, _ = _start(tmp_path, "--grace", "2min")
    with node, ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=20))
        wait_for(lambda: node.metric("qosweb_connections") == 5, "five handshakes to be waited for")
        assert node.stop(timeout_s=30) == 0
