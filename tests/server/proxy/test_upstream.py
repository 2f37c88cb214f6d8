"""Reverse proxy: requests that are not for a file go to the upstream server, streamed in both directions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from signal import Signals
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import OK, MisbehavingServer, Talk, free_port
from tests.support.nodes import RunningNode, version
from tests.support.raw import Closed, RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE = hashlib.shake_128(b"large").digest(3 << 20)
HEADER = b"HTTP/1.1 200 OK\r\n"


def script(talk: Talk) -> None:
    """An upstream server whose behaviour depends on the path."""
    match talk.path.partition("?")[0]:
        case "/ok":
            talk.send(OK)
        case "/echo":
            length = talk.field("Content-Length")
            body = talk.read(int(length)) if length is not None else talk.read_chunked()
            told = json.dumps(
                {"method": talk.head.split(b" ")[0].decode(), "head": talk.head.decode("latin-1")}
            ).encode()
            told += b"\n" + body
            talk.send(HEADER + b"Content-Length: %d\r\n\r\n" % len(told) + told)
        case "/head":
            talk.send(HEADER + b"Content-Length: %d\r\n\r\n" % len(talk.head) + talk.head)
        case "/large":
            talk.send(HEADER + b"Content-Length: %d\r\n\r\n" % len(LARGE) + LARGE)
        case "/chunked":
            talk.send(HEADER + b"Transfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(LARGE), 100_000):
                piece = LARGE[at : at + 100_000]
                talk.send(b"%x;ext=1\r\n" % len(piece) + piece + b"\r\n")
            talk.send(b"0\r\nX-Trailer: 1\r\n\r\n")
        case "/until-close":
            talk.send(b"HTTP/1.0 200 OK\r\n\r\nall of it")
            talk.close()
        case "/closing":
            talk.send(HEADER + b"Connection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nok")
            talk.close()
        case "/not-modified":
            talk.send(b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n')
        case "/cookies":
            talk.send(HEADER + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nServer: them\r\nContent-Length: 0\r\n\r\n")
        case "/missing":
            talk.send(b"HTTP/1.1 404 Nope\r\nContent-Length: 4\r\n\r\nnope")
        case "/odd":
            talk.send(b"HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n")
        case "/error":
            talk.send(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
        case "/early":
            talk.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
            talk.close()
        case "/length-only":
            talk.send(HEADER + b"Content-Length: 5000\r\n\r\n")  # to HEAD
        case "/reset":
            talk.reset()
        case "/close":
            talk.close()
        case "/garbage":
            talk.send(b"220 mail.example ESMTP\r\n\r\n")
        case "/smuggled":
            talk.send(HEADER + b"Content-Length: 2\r\nContent-Length: 7\r\n\r\nok12345")
        case "/folded":
            talk.send(HEADER + b"X-A: 1\r\n X-B: 2\r\nContent-Length: 2\r\n\r\nok")
        case "/gzip-coding":
            talk.send(HEADER + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
        case "/bad-chunk":
            talk.send(HEADER + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")
        case "/half":
            talk.send(HEADER + b"Content-Length: 1000\r\n\r\nhalf of it")
            talk.close()
        case "/half-chunked":
            talk.send(HEADER + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            talk.close()
        case "/hang":
            talk.hang()
        case "/stall":
            talk.send(HEADER + b"Content-Length: 1000\r\n\r\nhalf of it")
            talk.hang()
        case "/link":
            talk.send(HEADER + b'Link: </secret/page>; rel="next"\r\nContent-Length: 0\r\n\r\n')
        case _:
            talk.send(HEADER + b"Content-Length: 5\r\n\r\nthere")


@pytest.fixture(scope="module")
def server() -> Iterator[MisbehavingServer]:
    with MisbehavingServer(script) as started:
        yield started


@pytest.fixture(scope="module")
def node(server: MisbehavingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with in_front(server, tmp_path_factory.mktemp("front")) as started:
        yield started


@pytest.fixture(scope="module")
def impatient(server: MisbehavingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node with a short upstream timeout."""
    with in_front(
        server, tmp_path_factory.mktemp("impatient"), "--upstream-timeout", "1s", "--send-timeout", "1s"
    ) as one:
        yield one


@contextlib.contextmanager
def in_front(server: MisbehavingServer, scratch: Path, *options: str) -> Iterator[RunningNode]:
    (scratch / "site").mkdir()
    (scratch / "site" / "file.txt").write_text("a file")
    with RunningNode(scratch / "site", scratch, "--upstream", server.url, *options) as started:
        yield started
        assert not any("fault" in line for line in started.stderr), started.stderr


def line_of(node: RunningNode, mark: str) -> dict[str, object]:
    """The log line of the request with the host ``mark``."""
    return wait_for(lambda: next((line for line in node.log() if line["host"] == mark), None), f"the line of {mark}")


def test_files_come_first_and_other_requests_go_upstream(node: RunningNode) -> None:
    with node.connect() as connection:
        assert connection.get("/file.txt").body == b"a file"
        assert connection.get("/anything?x=1").body == b"there"
        assert connection.get("/missing").status == 404
        assert connection.get("/missing").body == b"nope"
        assert connection.get("/file.txt").body == b"a file"
        assert connection.get("/file.txt", method="DELETE").body == b"there"  # not a question for a file


def test_forwarded_heads_are_serialised_anew(node: RunningNode) -> None:
    reply = node.get("//a//head/../x", "X: 1")
    assert reply.status == 400  # never asked there
    sent = "GET http://shop.example:99/head?q=%41&b=c HTTP/1.1\r\nHost: other\r\nConnection: close, X-Secret\r\n"
    sent += "X-Secret: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Kept:   spaced   \r\n"
    sent += "Transfer_Encoding: chunked\r\nContent_Length: 5\r\n"
    sent += "Via: 1.0 far\r\nAccept-Encoding: br\r\n\r\n"
    with node.connect() as connection:
        connection.send(sent.encode())
        head = connection.read_reply().body.decode()
        assert connection.is_closed()
    lines = head.split("\r\n")
    assert lines[0] == "GET /head?q=%41&b=c HTTP/1.1"
    assert sorted(line for line in lines[1:] if not line.lower().startswith(("connection:", "x-request-id:"))) == [
        "Accept-Encoding: br",
        'Forwarded: for=127.0.0.1;host="shop.example:99";proto=http',
        "Host: shop.example:99",
        "Via: 1.0 far, 1.1 n1",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Host: shop.example:99",
        "X-Forwarded-Proto: http",
        "X-Kept: spaced",
    ]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"])
def test_bodies_with_a_length_are_forwarded(node: RunningNode, method: str) -> None:
    with node.connect() as connection:
        for body in (b"x", LARGE, b""):
            connection.send(
                f"{method} /echo HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            ) if body else connection.send(f"{method} /ok HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            reply = connection.read_reply()
            if body:
                told, _, echoed = reply.body.partition(b"\n")
                assert echoed == body
                assert json.loads(told)["method"] == method
            else:
                assert reply.body == b"ok"


def test_chunked_bodies_are_forwarded_and_the_next_request_follows(node: RunningNode) -> None:
    pieces = [LARGE[:10], LARGE[10:70_000], LARGE[70_000:900_000]]
    chunks = b"".join(b"%x;e=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    with node.connect() as connection:
        connection.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        connection.send(
            b"0\r\nX-Trailer: y\r\n\r\nGET /ok HTTP/1.1\r\nHost: h\r\n\r\nGET /file.txt HTTP/1.1\r\nHost: h\r\n\r\n"
        )
        told, _, echoed = connection.read_reply().body.partition(b"\n")
        assert echoed == LARGE[:900_000]
        assert b"X-Trailer" not in told
        assert connection.read_reply().body == b"ok"
        assert connection.read_reply().body == b"a file"


@pytest.mark.parametrize(
    "body",
    [
        b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5;bad[=x\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: gzip\r\nContent-Length: 4\r\n\r\nbody",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbodyX",
        b"Content-Length: +4\r\n\r\nbody",
        b"Content-Length : 4\r\n\r\nbody",
    ],
)
def test_ambiguous_bodies_are_refused_and_end_the_connection(node: RunningNode, body: bytes) -> None:
    smuggled = b"GET /smuggle HTTP/1.1\r\nHost: h\r\n\r\n"
    with node.connect() as connection:
        connection.send(b"POST /echo HTTP/1.1\r\nHost: h\r\n" + body + smuggled)
        assert connection.read_reply().status == 400
        assert connection.is_closed()


def test_expect_100_continue_is_answered(node: RunningNode) -> None:
    with node.connect() as connection:
        connection.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert connection._read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(b"abc")
        told, _, echoed = connection.read_reply().body.partition(b"\n")
        assert echoed == b"abc"
        assert "expect" not in json.loads(told)["head"].lower()


def test_large_answers_are_whole(node: RunningNode, server: MisbehavingServer) -> None:
    with node.connect() as connection:
        assert connection.get("/large").body == LARGE
        before = server.connections
        for _ in range(5):
            assert connection.get("/large").body == LARGE
        assert server.connections == before  # used again
    reply = node.get("/large", "Host: bytes.example")
    assert reply.status == 400  # two hosts
    with node.connect() as connection:
        connection.send(b"GET /large HTTP/1.1\r\nHost: bytes.example\r\n\r\n")
        assert connection.read_reply().body == LARGE
    line = line_of(node, "bytes.example")
    assert (line["bytes"], line["decision"], line["path"]) == (len(LARGE), "served", "/large")


def test_an_answer_without_a_length_is_chunked_or_ends_the_connection(node: RunningNode) -> None:
    for path, whole in (("/chunked", LARGE), ("/until-close", b"all of it")):
        with node.connect() as connection:
            connection.send(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\nGET /ok HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            head = connection._read_until(b"\r\n\r\n").lower()
            assert b"transfer-encoding: chunked" in head
            assert b"content-length" not in head
            body = b""
            while size := int(connection._read_until(b"\r\n"), 16):
                body += connection._read_exactly(size)
                assert connection._read_exactly(2) == b"\r\n"
            assert connection._read_exactly(2) == b"\r\n"
            assert body == whole
            assert connection.read_reply().body == b"ok"
        with node.connect() as connection:
            connection.send(f"GET {path} HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n".encode())
            head, _, body = connection.read_to_end().partition(b"\r\n\r\n")
            assert b"connection: close" in head.lower()
            assert b"chunked" not in head.lower()
            assert body == whole


def test_responses_keep_their_own_fields(node: RunningNode) -> None:
    with node.connect() as connection:
        reply = connection.get("/closing")
        assert reply.body == b"ok"
        assert "x-hop" not in reply.headers
        assert "connection" not in reply.headers
        assert reply.headers["via"] == "1.1 n1"
        assert "date" in reply.headers
        not_modified = connection.get("/not-modified", 'If-None-Match: "x"')
        assert (not_modified.status, not_modified.headers["etag"]) == (304, '"x"')
        head = connection.get("/length-only", method="HEAD")
        assert head.headers["content-length"] == "5000"
        assert connection.get("/odd").status == 799
        connection.send(b"GET /cookies HTTP/1.1\r\nHost: h\r\n\r\n")
        raw = connection._read_until(b"\r\n\r\n")
        assert raw.count(b"Set-Cookie: ") == 2
        assert b"Server: them" in raw
        assert b"qosweb" not in raw
        assert connection.get("/error").status == 500
        assert connection.get("/ok").body == b"ok"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/reset", 502),
        ("/close", 502),
        ("/garbage", 502),
        ("/smuggled", 502),
        ("/gzip-coding", 502),
    ],
)
def test_an_upstream_failure_becomes_an_error_response(node: RunningNode, path: str, status: int) -> None:
    with node.connect() as connection:
        reply = connection.get(path)
        assert reply.status == status
        assert b"upstream server" in reply.body
        assert connection.get("/ok").body == b"ok"


def test_a_slow_upstream_becomes_a_504(impatient: RunningNode) -> None:
    with impatient.connect() as connection:
        reply = connection.get("/hang")
        assert reply.status == 504
        assert b"upstream server" in reply.body
        assert connection.get("/file.txt").body == b"a file"


@pytest.mark.parametrize("path", ["/half", "/half-chunked", "/bad-chunk", "/stall"])
def test_an_incomplete_response_is_not_taken_for_a_complete_one(
    node: RunningNode, impatient: RunningNode, path: str
) -> None:
    node = impatient if path == "/stall" else node
    host = path[1:] + ".example"
    with node.connect() as connection:
        connection.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        if path in ("/half", "/stall"):
            with pytest.raises(Closed):
                connection.read_reply()
        else:
            assert not connection.read_to_end().endswith(b"0\r\n\r\n")
    assert line_of(node, host)["decision"] == "failed"


def test_a_header_that_is_folded_is_refused_or_unfolded(node: RunningNode) -> None:
    with node.connect() as connection:
        reply = connection.get("/folded")
        assert reply.status == 502 or (reply.status == 200 and "x-b" not in reply.headers)


def test_a_response_before_the_end_of_the_body_closes_the_connection(node: RunningNode) -> None:
    with node.connect() as connection:
        connection.send(b"POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\nxxx")
        reply = connection.read_reply()
        assert (reply.status, reply.body, reply.headers["connection"]) == (413, b"big", "close")
        assert connection.is_closed()


def test_a_body_that_stops_is_given_up(node: RunningNode, impatient: RunningNode) -> None:
    for ends in (False, True):
        with (node if ends else impatient).connect() as connection:
            connection.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nxxx")
            if ends:
                connection.half_close()
            reply = connection.read_reply()
            assert reply.status == (400 if ends else 408)
            assert (b"The body is malformed" if ends else b"No byte of the request body arrived") in reply.body
    for one in (node, impatient):
        wait_for(lambda one=one: one.metric("qosweb_requests_in_service") == 0, "nothing in service")  # type: ignore[misc]


def test_a_client_that_disconnects_cancels_its_upstream_request(tmp_path: Path) -> None:
    ended: list[bool] = []

    def listen(talk: Talk) -> None:
        talk.sock.settimeout(20)
        ended.append(talk.sock.recv(1) == b"")

    (tmp_path / "site").mkdir()
    with (
        MisbehavingServer(listen) as server,
        RunningNode(tmp_path / "site", tmp_path, "--upstream", server.url) as node,
    ):
        with node.connect() as connection:
            connection.send(b"GET /x HTTP/1.1\r\nHost: gone.example\r\n\r\n")
            wait_for(lambda: server.requests == 1, "the request there")
        wait_for(lambda: ended == [True], "its end there")
        line = line_of(node, "gone.example")
        assert (line["decision"], line["status"]) == ("failed", 499)
        assert node.metric("qosweb_requests_in_service") == 0


def test_back_pressure_both_ways(tmp_path: Path) -> None:
    """Bytes that one side does not read stay at the other side, not in the node."""
    total = 100 << 20
    moved = [0, 0]

    def pour(talk: Talk) -> None:
        talk.sock.settimeout(60)
        if talk.path == "/down":
            talk.send(HEADER + b"Content-Length: %d\r\n\r\n" % total)
            block = bytes(1 << 20)
            for _ in range(total >> 20):
                talk.send(block)
                moved[0] += len(block)
        else:
            talk.hang()

    def push(client: RawConnection) -> None:
        """Send until the peer reads nothing for a while."""
        client.sock.settimeout(3)
        with contextlib.suppress(TimeoutError):
            while moved[1] < total:
                moved[1] += client.sock.send(bytes(1 << 20))

    (tmp_path / "site").mkdir()
    with (
        MisbehavingServer(pour) as server,
        RunningNode(tmp_path / "site", tmp_path, "--upstream", server.url, "--send-timeout", "60s") as node,
        node.connect(timeout_s=60) as down,
        node.connect() as up,
    ):
        before = node.metric("process_resident_memory_bytes")
        down.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        down.send(b"GET /down HTTP/1.1\r\nHost: h\r\n\r\n")
        up.send(b"POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % total)
        push(up)
        wait_for(lambda: moved[0] > 0, "some of it")
        assert 0 < moved[0] < 64 << 20  # what the buffers of the sockets hold
        assert 0 < moved[1] < 64 << 20
        assert node.metric("process_resident_memory_bytes") - before < 16 << 20
        assert len(down.read_reply().body) == total


def test_one_client_gets_only_a_part_of_the_connections_there(tmp_path: Path) -> None:
    """2 of 200: its third request waits until one of the others has its answer; that of another client does not."""
    go_on = threading.Event()

    def hold(talk: Talk) -> None:
        if talk.path == "/hold":
            go_on.wait(60)
        talk.send(OK)

    def ask(path: str, source: str) -> RawConnection:
        connection = held.enter_context(RawConnection(node.port, source=source))
        connection.send(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        return connection

    with (
        MisbehavingServer(hold) as server,
        in_front(server, tmp_path, "--client-share", "1%") as node,
        contextlib.ExitStack() as held,
    ):
        try:
            mine = [ask("/hold", "127.0.0.1") for _ in range(2)]
            wait_for(lambda: server.requests == 2, "both to be asked there")
            waiting = ask("/mine", "127.0.0.1")
            gone = ask("/mine", "127.0.0.1")
            assert ask("/theirs", "127.0.0.2").read_reply().body == b"ok"
            assert [head.split()[1] for head in server.heads] == [b"/hold", b"/hold", b"/theirs"]
            gone.close()
        finally:
            go_on.set()
        assert [connection.read_reply().body for connection in [*mine, waiting]] == [b"ok"] * 3
        assert ask("/again", "127.0.0.1").read_reply().body == b"ok"


def test_who_waits_too_long_for_a_connection_there_is_told(tmp_path: Path) -> None:
    hasty = version(("qosweb.server.proxy.upstream", "WAIT_S", 0.4))
    with MisbehavingServer(Talk.hang) as server:
        (tmp_path / "site").mkdir()
        options = ("--upstream", server.url, "--client-share", "0.5%")
        with RunningNode(tmp_path / "site", tmp_path, *options, command=hasty) as node, node.connect() as first:
            first.send(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
            wait_for(lambda: server.requests == 1, "the first to be asked there")
            reply = node.get("/b")
            assert (reply.status, reply.headers["retry-after"]) == (429, "1")
            wait_for(lambda: [line["decision"] for line in node.log()] == ["denied"], "its line in the log")


def test_an_upstream_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    with RunningNode(tmp_path / "site", tmp_path, "--upstream", f"http://127.0.0.1:{free_port()}") as node:
        reply = node.get("/x")
        assert reply.status == 502
        assert b"cannot be reached" in reply.body


def test_forwarding_loops_are_detected(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "site").mkdir()
    url = f"http://127.0.0.1:{port}"
    with RunningNode(tmp_path / "site", tmp_path, "--listen", f"127.0.0.1:{port}", "--upstream", url) as node:
        assert node.get("/x").status == 508


def test_upstream_responses_are_paced_and_draining_waits_for_them(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    with (
        MisbehavingServer(script) as server,
        RunningNode(tmp_path / "site", tmp_path, "--upstream", server.url, "--capacity", "1MB/s") as node,
        node.connect() as connection,
    ):
        began = monotonic()
        connection.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        wait_for(lambda: node.metric("qosweb_requests_in_service") == 1, "the start")
        node.kill(Signals.SIGTERM)
        assert connection.read_reply().body == LARGE
        assert monotonic() - began >= len(LARGE) / (1 << 20) - 0.02
        assert node.process.wait(20) == 0


def test_link_fields_of_upstream_responses_count(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    spec = tmp_path / "site.webqos"
    spec.write_text("links(</link>).server_resource > 10%\n")
    with (
        MisbehavingServer(script) as server,
        RunningNode(tmp_path / "site", tmp_path, "--upstream", server.url, "--spec", str(spec)) as node,
        node.connect() as connection,
    ):
        before = connection.get("/secret/page").headers["qos-class"]
        assert connection.get("/link").status == 200
        after = connection.get("/secret/page").headers["qos-class"]
        assert before != after
        assert connection.get("/other/page").headers["qos-class"] == before
