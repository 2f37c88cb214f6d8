"""Upstream servers behind TLS: their certificate is checked by the configured CA and name, before anything is sent."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.support.misbehaving import OK, MisbehavingServer, Talk
from tests.support.nodes import RunningNode
from tests.support.tls import server_context, write_certificate
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE = bytes(range(256)) * 4096


def script(talk: Talk) -> None:
    if talk.path.endswith("/large"):
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE) + LARGE)
    elif talk.path.endswith("/echo"):
        body = talk.read(int(talk.field("Content-Length") or 0))
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    else:
        talk.send(OK)


def table(name: str, port: int, **keys: str) -> str:
    """A table of the configuration: requests for ``/name`` go to an https server at ``port``."""
    lines = [f'{key} = "{value}"' for key, value in keys.items()]
    return "\n".join(
        ["[[upstream]]", f'name = "{name}"', f'url = "https://127.0.0.1:{port}"', f'paths = ["/{name}/*"]', *lines, ""]
    )


@contextmanager
def in_front(folder: Path, *tables: str) -> Iterator[RunningNode]:
    config = folder / "qosweb.toml"
    config.write_text("\n".join(tables))
    with RunningNode(None, folder, "--config", str(config)) as node:
        yield node
        assert not any("internal error" in line for line in node.stderr), node.stderr


def wait_for_message(node: RunningNode, text: str) -> None:
    wait_for(lambda: any(text in line for line in node.stderr) or None, text)


def test_requests_pass_and_connections_are_kept(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path / "tls")
    with (
        MisbehavingServer(script, tls=server_context(certificate, key)) as server,
        in_front(
            tmp_path, table("app", server.port, ca=str(certificate), server_name="localhost", health_path="/up")
        ) as node,
        node.connect() as connection,
    ):
        for _ in range(3):
            assert connection.get("/app/x").body == b"ok"
        assert connection.get("/app/large").body == LARGE
        connection.send(b"POST /app/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n" + LARGE[:100_000])
        assert connection.read_reply().body == LARGE[:100_000]
        assert sum(b" /up " not in head.split(b"\r\n")[0] for head in server.heads) == 5
        assert node.metric("qosweb_upstream_connections", server="app") == 1


def test_a_wrong_certificate_is_a_502_and_a_failure_of_the_server(tmp_path: Path) -> None:
    good, expired = write_certificate(tmp_path / "good"), write_certificate(tmp_path / "expired", is_expired=True)
    with ExitStack() as stack:
        server = stack.enter_context(MisbehavingServer(script, tls=server_context(*good)))
        late = stack.enter_context(MisbehavingServer(script, tls=server_context(*expired)))
        plain = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler))
        threading.Thread(target=plain.serve_forever, daemon=True).start()
        stack.callback(plain.shutdown)
        node = stack.enter_context(
            in_front(
                tmp_path,
                table("ca", server.port, ca=str(expired[0]), server_name="localhost"),
                table("name", server.port, ca=str(good[0]), server_name="other.example"),
                table("expired", late.port, ca=str(expired[0]), server_name="localhost"),
                table("checked", server.port, ca=str(good[0]), health_path="/up", health_interval="1s"),
                table("plain", plain.server_address[1]),
            )
        )
        reasons = {
            "ca": "connection errors (certificate: self-signed certificate",
            "name": "connection errors (certificate: Hostname mismatch",
            "expired": "connection errors (certificate: certificate has expired",
            "checked": "health checks: certificate: IP address mismatch",
            "plain": "connection errors (TLS: ",
        }
        wait_for_message(node, f"upstream checked is out: {reasons['checked']}")  # before a request fails there
        for name in reasons:
            for _ in range(2):
                reply = node.get(f"/{name}/x")
                why = "TLS handshake with" if name == "plain" else "certificate of"
                assert (reply.status, why in reply.body.decode()) == (502, True), reply.body
                assert b"other.example" not in reply.body
        assert server.heads == late.heads == []
        for name, reason in reasons.items():
            wait_for_message(node, f"upstream {name} is out: {reason}")
        assert "all upstream servers are out: ca (connection errors (certificate: " in node.readiness()
