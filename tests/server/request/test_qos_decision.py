"""Every response of a node with a specification has QoS-Decision, and says what the access log says."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import MisbehavingServer, Talk, free_port
from tests.support.nodes import RunningNode
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.raw import Reply

LARGE = 64 << 20  # more than the sockets hold
SPEC = "</index.html>.available = always\n"


def script(talk: Talk) -> None:
    match talk.path:
        case "/reset":
            talk.reset()
        case "/hang":
            talk.hang()
        case "/error":
            talk.send(b"HTTP/1.1 503 Busy\r\nQoS-Decision: served\r\nQoS-Class: theirs\r\nContent-Length: 0\r\n\r\n")
        case "/strange":
            talk.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
        case _:
            talk.send(b"HTTP/1.1 200 OK\r\nQoS-Decision: theirs\r\nContent-Length: 5\r\n\r\nthere")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "site.webqos").write_text(SPEC)
    with MisbehavingServer(script) as behind:
        options = ("--spec", str(folder / "site.webqos"), "--upstream", behind.url, "--upstream-timeout", "1s")
        with RunningNode(write_site(folder / "site"), folder, *options) as node:
            yield node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "site.webqos").write_text(SPEC)
    options = ("--spec", str(folder / "site.webqos"), "--max-connections-per-client", "3")
    with RunningNode(write_site(folder / "site"), folder, *options) as node:
        yield node


def decision(reply: Reply) -> tuple[int, str]:
    assert reply.raw_head.lower().count(b"qos-class:") == 1
    return reply.status, reply.headers["qos-decision"]


@pytest.mark.parametrize(
    ("target", "status", "said"),
    [("/there", 200, "served"), ("/index.html", 200, "served"), ("/reset", 502, "failed"), ("/strange", 502, "failed"),
     ("/hang", 504, "failed"), ("/error", 503, "failed")],
)  # fmt: skip
def test_responses_with_a_server_behind(proxy: RunningNode, target: str, status: int, said: str) -> None:
    for _ in range(2):  # from the disk, from memory
        assert decision(proxy.get(target)) == (status, said)
    wait_for(
        lambda: {line["decision"] for line in proxy.log() if line.get("path") == target} == {said} or None, "the log"
    )


def test_no_server_behind(tmp_path: Path) -> None:
    (tmp_path / "site.webqos").write_text(SPEC)
    options = ("--spec", str(tmp_path / "site.webqos"), "--upstream", f"http://127.0.0.1:{free_port()}")
    with RunningNode(write_site(tmp_path / "site"), tmp_path, *options) as node:
        reply = node.get("/there")
        assert reply.status in (502, 503)
        assert reply.headers["qos-decision"] == "failed"


@pytest.mark.parametrize(
    ("request_head", "status", "said"),
    [("GET /index.html HTTP/1.1\r\nHost: a", 200, "served"),
     ("GET /missing HTTP/1.1\r\nHost: a", 404, "served"), ("HEAD /page.html HTTP/1.1\r\nHost: a", 200, "served"),
     ("GET /page.html HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1", 206, "served"),
     ("GET /page.html HTTP/1.1\r\nHost: a\r\nIf-None-Match: *", 304, "served"),
     ("OPTIONS * HTTP/1.1\r\nHost: a", 204, "served"), ("DELETE / HTTP/1.1\r\nHost: a", 405, "served"),
     ("GET /%00 HTTP/1.1\r\nHost: a", 400, "failed"), ("GET / HTTP/1.1\r\nHost: a b", 400, "failed"),
     ("GET / HTTP/1.1\r\nHost: a\r\nExpect: more", 417, "served"), ("nonsense", 400, "failed"),
     ("GET / HTTP/2.0\r\nHost: a", 505, "failed"), (f"GET /{'a' * 10_000} HTTP/1.1", 414, "failed")],
)  # fmt: skip
def test_responses_of_a_file_server(node: RunningNode, request_head: str, status: int, said: str) -> None:
    with node.connect() as connection:
        connection.send(f"{request_head}\r\n\r\n".encode())
        assert decision(connection.read_reply(head_only=request_head.startswith("HEAD"))) == (status, said)


def reasons(node: RunningNode) -> set[str]:
    """The reasons of all denials in the log."""
    return {line["reason"] for line in node.log() if line["decision"] == "denied"}


def test_one_connection_too_many(node: RunningNode) -> None:
    wait_for(lambda: node.metric("qosweb_connections") == 0 or None, "the connections of other tests to end")
    with ExitStack() as stack:
        for _ in range(3):
            assert stack.enter_context(node.connect()).get("/index.html").status == 200
        reply = stack.enter_context(node.connect()).read_reply()
        assert decision(reply) == (429, "denied; reason=connections")
        wait_for(lambda: {"connections"} == reasons(node), "the reason in the log")


def test_one_file_too_many_for_a_client(tmp_path: Path) -> None:
    (tmp_path / "site.webqos").write_text(SPEC)
    (write_site(tmp_path / "site") / "large.bin").write_bytes(bytes(LARGE))
    options = ("--spec", str(tmp_path / "site.webqos"), "--max-open-files", "2", "--client-share", "50%")
    with RunningNode(tmp_path / "site", tmp_path, *options) as node, node.connect() as busy:
        busy.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: node.metric("qosweb_open_files") == 1 or None, "the file to be sent")
        assert decision(node.get("/large.bin")) == (429, "denied; reason=client_share")
        wait_for(lambda: {"client_share"} == reasons(node), "the reason in the log")


def test_a_node_without_a_specification_says_nothing(tmp_path: Path) -> None:
    with RunningNode(write_site(tmp_path / "site"), tmp_path) as node:
        assert "qos-decision" not in node.get("/index.html").headers
        assert "qos-decision" not in node.get("/missing").headers
