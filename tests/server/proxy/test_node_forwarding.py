"""Two nodes with ``set redirect = forward``: requests that do not fit at one are forwarded to the other.

A slow page fills the pipe of `a`; every other request to `a` is forwarded to `b`.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters import RunningCluster
from tests.support.misbehaving import MisbehavingServer, Talk
from tests.support.raw import Closed, RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw import Reply

SPEC = "set redirect = forward\nset lifetime = 20s\nset channel = 2MB in 1s\n"
LARGE = hashlib.shake_128(b"large").digest(3 << 20)  # a second and a half
CONNECTIONS_MAX = 8
SLOW = bytes(64 << 20)  # half a minute


def echo(talk: Talk) -> None:
    """An upstream server of the nodes, which returns the request."""
    length = int(talk.field("Content-Length") or 0)
    told = json.dumps({"head": talk.head.decode("latin-1")}).encode() + b"\n" + talk.read(length)
    talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(told) + told)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    folder = tmp_path_factory.mktemp("forwarding")
    site = folder / "site"
    site.mkdir()
    (site / "small.txt").write_bytes(b"small")
    (site / "large.bin").write_bytes(LARGE)
    (site / "slow.bin").write_bytes(SLOW)
    with (
        MisbehavingServer(echo) as behind,
        RunningCluster(
            site,
            folder,
            SPEC,
            "ab",
            *("--capacity", "2MB/s", "--upstream", behind.url, "--max-connections-per-client", str(CONNECTIONS_MAX)),
        ) as cluster,
    ):
        yield cluster


def channels(cluster: RunningCluster, name: str) -> int:
    return int(cluster.status("a")["nodes"][name]["channels"])


@contextmanager
def full_pipe(cluster: RunningCluster, name: str = "a") -> Iterator[None]:
    wait_for(lambda: not (channels(cluster, "a") or channels(cluster, "b")) or None, "both pipes are free")
    with cluster.nodes[name].connect() as slow:
        slow.send(b"GET /slow.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        slow._read_until(b"\r\n\r\n")  # the node knows the size of the page, and with it for how long
        wait_for(lambda: channels(cluster, name) or None, f"the pipe of {name} is full")
        yield


def forwarded(cluster: RunningCluster, target: str, *fields: str, method: str = "GET") -> Reply:
    with full_pipe(cluster):
        reply = cluster.nodes["a"].get(target, *fields, method=method)
    assert reply.headers["via"] == "1.1 a"
    logged(cluster, "a", path=target.partition("?")[0], decision="forwarded", method=method, status=reply.status)
    return reply


def logged(cluster: RunningCluster, name: str, **wanted: object) -> dict[str, Any]:
    """Wait for such a line in the log."""

    def find() -> dict[str, Any] | None:
        return next((line for line in cluster.requests(name) if wanted.items() <= line.items()), None)

    return wait_for(find, f"a line with {wanted} in the log of {name}")


def test_a_page_passes_with_its_fields(cluster: RunningCluster) -> None:
    reply = forwarded(cluster, "/small.txt?x=1", "X-Asked: yes")
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"small", "text/plain; charset=utf-8")
    assert (reply.headers["qos-class"], reply.headers["qos-decision"]) == ("default", "served")
    assert reply.raw_head.lower().count(b"qos-class") == 1
    assert reply.raw_head.lower().count(b"\r\ndate:") == 1
    assert forwarded(cluster, "/small.txt", f"If-None-Match: {reply.headers['etag']}").status == 304
    part = forwarded(cluster, "/small.txt", "Range: bytes=1-2")
    assert (part.status, part.body) == (206, b"ma")
    there = logged(cluster, "b", path="/small.txt", decision="served", status=206)
    here = logged(cluster, "a", path="/small.txt", decision="forwarded", status=206)
    assert here["rid"] == there["rid"]  # one request, one name
    assert cluster.status("b")["tickets"] == {"good": 3}


def test_head_passes(cluster: RunningCluster) -> None:
    with full_pipe(cluster), cluster.nodes["a"].connect() as connection:
        for _ in range(2):  # the connection goes on
            connection.send(b"HEAD /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            reply = connection.read_reply(head_only=True)
            assert (reply.status, reply.headers["content-length"]) == (200, str(len(LARGE)))
            assert reply.headers["via"] == "1.1 a"


def test_a_large_file_passes(cluster: RunningCluster) -> None:
    reply = forwarded(cluster, "/large.bin")
    assert reply.status == 200
    assert reply.body == LARGE


def test_a_request_for_the_upstream_server_goes_there_from_the_node_where_it_arrived(cluster: RunningCluster) -> None:
    body = b"x" * 100_000
    with full_pipe(cluster), cluster.nodes["a"].connect() as connection:
        connection.send(
            b"POST /form?x=1 HTTP/1.1\r\nHost: shop.example\r\nContent-Length: %d\r\nX-Asked: yes\r\nCookie: k=v\r\n"
            b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nForwarded: for=192.0.2.1\r\n\r\n" % len(body) + body
        )
        reply = connection.read_reply()
    told, _, passed = reply.body.partition(b"\n")
    assert (reply.status, passed) == (200, body)
    head = json.loads(told)["head"]
    assert head.startswith("POST /form?x=1 HTTP/1.1\r\n")  # it waits for the server, not for the pipe
    for field in ("Host: shop.example", "X-Asked: yes", "Cookie: k=v", "Via: 1.1 a"):
        assert f"\r\n{field}\r\n" in head
    assert "X-Hop" not in head
    assert "192.0.2.1" not in head  # the client is no trusted proxy
    assert "\r\nX-Forwarded-For: 127.0.0.1\r\n" in head


def ask_from(source: str, cluster: RunningCluster, name: str, target: str, *fields: str) -> Reply:
    with RawConnection(cluster.nodes[name].port, source=source) as connection:
        return connection.get(target, *fields)


def test_the_second_node_knows_the_client(cluster: RunningCluster) -> None:
    with full_pipe(cluster):
        assert ask_from("127.0.0.9", cluster, "a", "/small.txt?client").status == 200
    here = logged(cluster, "a", client="127.0.0.9", path="/small.txt", decision="forwarded")
    assert logged(cluster, "b", rid=here["rid"])["client"] == "127.0.0.9"


def test_a_stranger_cannot_claim_a_client(cluster: RunningCluster) -> None:
    fields = ("X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", "Via: 1.1 a")
    assert ask_from("127.0.0.8", cluster, "b", "/small.txt?qos-ticket=AAAA", *fields).status == 200
    assert logged(cluster, "b", client="127.0.0.8", path="/small.txt")["status"] == 200
    assert not any(line["client"] == "192.0.2.1" for line in cluster.requests("b"))


def test_a_node_that_forwards_is_not_one_client(cluster: RunningCluster) -> None:
    """Its connection, which is kept, does not count for its address."""
    forwarded(cluster, "/small.txt")
    b = cluster.nodes["b"]
    wait_for(lambda: b.metric("qosweb_connections") == 1, "only the connection of a is left")
    with ExitStack() as stack:
        for _ in range(CONNECTIONS_MAX):
            assert stack.enter_context(b.connect()).get("/small.txt").status == 200
        assert stack.enter_context(b.connect()).read_reply().status == 429


def test_a_client_that_disconnects_cancels_its_forwarded_request(cluster: RunningCluster) -> None:
    with full_pipe(cluster):
        with cluster.nodes["a"].connect() as connection:
            connection.send(b"GET /slow.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_for(lambda: channels(cluster, "b") or None, "it runs at b")
        wait_for(lambda: not channels(cluster, "b") or None, "it runs no more")
    there = logged(cluster, "b", path="/slow.bin", decision="failed")  # it ends there, and only there
    assert logged(cluster, "a", rid=there["rid"])["decision"] == "forwarded"


def test_a_forwarded_request_is_not_forwarded_again(cluster: RunningCluster) -> None:
    """As if its ticket had come too late, while b is full and a is not."""
    with full_pipe(cluster, "b"), cluster.nodes["b"].connect() as connection:
        connection.send(b"GET /small.txt?qos-ticket=old HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 a\r\n\r\n")
        reply = connection.read_reply()
    assert reply.status == 307  # the client goes there, with a ticket of its own
    assert reply.headers["location"].startswith(cluster.nodes["a"].url + "/small.txt?qos-ticket=")
    with full_pipe(cluster), cluster.nodes["a"].connect() as connection:
        connection.send(b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 a\r\n\r\n")
        assert connection.read_reply().status == 508  # it has been here


def test_a_peer_that_dies_in_the_middle(cluster: RunningCluster) -> None:
    """The last test of this file: b is gone afterwards."""
    a, b = cluster.nodes["a"], cluster.nodes["b"]
    with full_pipe(cluster), a.connect() as connection:
        connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_for(lambda: channels(cluster, "b") or None, "it runs at b")
        connection._buffer = connection._recv(4096)
        b.process.kill()
        with pytest.raises(Closed):
            connection.read_reply()  # it sees that this was not all
    line = logged(cluster, "a", path="/large.bin", decision="failed", status=200)
    assert line["bytes"] < len(LARGE)
    assert not any(other["rid"] == line["rid"] for other in cluster.requests("b"))  # b may have logged the old id
    wait_for(lambda: a.get("/small.txt").status == 200 or None, "a goes on")
    assert not any("internal error" in said for said in a.stderr)
