"""A node behind a real HAProxy: PROXY headers of both versions, before HTTP and before TLS, and X-Forwarded-For."""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import free_port
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.tls import client_context, write_certificate
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

CLIENT = "127.0.0.9"
FRONT = """
defaults
  timeout connect 20s
  timeout client 60s
  timeout server 60s
"""


def section(name: str, mode: str, port: int, server: str, *lines: str) -> str:
    """A section of HAProxy's configuration: it listens on ``port``."""
    more = "".join(f"  {line}\n" for line in lines)
    return f"listen {name}\n  mode {mode}\n  bind 127.0.0.1:{port}\n{more}  server node 127.0.0.1:{server}\n"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def haproxy() -> str:
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        pytest.skip("needs haproxy (./dev setup --full)")
    return program


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def nodes(certificate: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningNode]]:
    scratch = tmp_path_factory.mktemp("nodes")
    (scratch / "site").mkdir()
    (scratch / "site" / "page.txt").write_text("page")
    trust = ("--trust-proxy", "127.0.0.1")
    tls = ("--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]))
    options = {
        "fields": trust,
        "headers": (*trust, "--proxy-protocol"),
        "secure": (*tls, "--proxy-protocol"),
    }
    with ExitStack() as stack:
        started = {}
        for name, chosen in options.items():
            (scratch / name).mkdir()
            started[name] = stack.enter_context(RunningNode(scratch / "site", scratch / name, *chosen))
        yield started


@pytest.fixture(scope="module")
def ports(
    haproxy: str, nodes: dict[str, RunningNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, int]]:
    """The ports of HAProxy, by what it does."""
    names = ("x-forwarded-for", "version 1", "version 2", "before TLS")
    ports = {name: free_port() for name in names}
    to = {name: node.port for name, node in nodes.items()}
    file = tmp_path_factory.mktemp("haproxy") / "haproxy.cfg"
    file.write_text(
        FRONT
        + section("a", "http", ports["x-forwarded-for"], str(to["fields"]), "option forwardfor")
        + section("b", "http", ports["version 1"], f"{to['headers']} send-proxy")
        + section("c", "http", ports["version 2"], f"{to['headers']} send-proxy-v2 check inter 100ms")
        + section("d", "tcp", ports["before TLS"], f"{to['secure']} send-proxy-v2")
    )
    running = subprocess.Popen([haproxy, "-f", str(file)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: all(map(is_open, ports.values())), "HAProxy to listen")
        yield ports
    finally:
        running.kill()
        running.wait(20)


@pytest.mark.parametrize(
    ("name", "node"),
    [("x-forwarded-for", "fields"), ("version 1", "headers"), ("version 2", "headers"), ("before TLS", "secure")],
)
def test_the_client_of_haproxy(
    ports: dict[str, int], nodes: dict[str, RunningNode], certificate: tuple[Path, Path], name: str, node: str
) -> None:
    tls: ssl.SSLContext | None = client_context(certificate[0]) if name == "before TLS" else None
    host = f"Host: {name.replace(' ', '-').lower()}.example"
    request = f"GET /page.txt HTTP/1.1\r\n{host}\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n".encode()
    with RawConnection(ports[name], source=CLIENT, tls=tls) as connection:
        for _ in range(4):
            connection.send(request)
            assert connection.read_reply().body == b"page"

    def clients() -> list[str]:
        return [line["client"] for line in nodes[node].log() if f"Host: {line['host']}" == host]

    wait_for(lambda: len(clients()) == 4, "four lines")
    assert clients() == [CLIENT] * 4  # and not what the client claims


def test_checks_of_haproxy_are_no_fault(ports: dict[str, int], nodes: dict[str, RunningNode]) -> None:
    before = nodes["headers"].metric("qosweb_connections_accepted_total")
    accepted = "qosweb_connections_accepted_total"
    wait_for(lambda: nodes["headers"].metric(accepted) >= before + 3, f"checks through {ports}")
    assert nodes["headers"].metric("qosweb_connections_refused_total", reason="proxy_header") == 0
