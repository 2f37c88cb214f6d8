"""Relays: connections to the server are used again safely, bodies come within limits, streams pass as they come."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import OK, MisbehavingServer, Talk
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER = b"HTTP/1.1 200 OK\r\n"
LIMITS = ("--max-body", "1MB", "--min-body-rate", "100KB/s", "--body-timeout", "5s", "--send-timeout", "2s")


class Script:
    """An upstream server whose behaviour depends on the path. ``go_on`` lets a stream continue."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.served: dict[Talk, int] = {}  # requests by connection

    def __call__(self, talk: Talk) -> None:
        self.served[talk] = self.served.get(talk, 0) + 1
        match talk.path:
            case "/stale":  # closes, instead of responding, a connection that was used before
                if self.served[talk] > 1:
                    talk.close()
                else:
                    talk.read(int(talk.field("Content-Length") or 0))
                    talk.send(HEADER + b"Content-Length: 5\r\n\r\nfresh")
            case "/excess":
                talk.send(HEADER + b"Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
            case "/hints":
                talk.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK)
            case "/endless-hints":
                talk.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100)
            case "/switch":
                talk.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
            case "/both":
                talk.send(HEADER + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            case "/piecemeal":
                for at in range(len(OK)):
                    talk.send(OK[at : at + 1])
            case "/huge-head":
                talk.send(HEADER + b"X: %b\r\n" % (b"x" * 1000) * 100)
            case "/events":
                talk.send(HEADER + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                talk.send(b"9\r\ndata: 1\n\n\r\n")
                self.go_on.wait(60)
                talk.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
            case "/read":
                length = talk.field("Content-Length")
                body = talk.read_chunked() if length is None else talk.read(int(length))
                talk.send(HEADER + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            case _:
                talk.send(OK)


@pytest.fixture
def script() -> Script:
    return Script()


@contextmanager
def in_front(script: Script, folder: Path, *options: str) -> Iterator[tuple[RunningNode, MisbehavingServer]]:
    (folder / "site").mkdir()
    with (
        MisbehavingServer(script) as server,
        RunningNode(folder / "site", folder, "--upstream", server.url, *options) as node,
    ):
        try:
            yield node, server
            assert not any("internal error" in line for line in node.stderr), node.stderr
        finally:
            script.go_on.set()


def test_a_connection_that_the_server_closed_is_replaced(script: Script, tmp_path: Path) -> None:
    """Only for requests that may be sent twice: a POST gets a 502."""
    with in_front(script, tmp_path) as (node, server), node.connect() as connection:
        for _ in range(3):
            assert connection.get("/ok").body == b"ok"
            reply = connection.get("/stale")
            assert (reply.status, reply.body) == (200, b"fresh")
        assert server.connections == 4
        connection.send(b"PUT /stale HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
        assert connection.read_reply().body == b"fresh"  # the body was small enough to keep
        connection.send(b"POST /stale HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
        assert connection.read_reply().status == 502
        assert connection.get("/ok").body == b"ok"


def test_bytes_that_nobody_asked_for_are_not_passed_on(script: Script, tmp_path: Path) -> None:
    with in_front(script, tmp_path) as (node, _), node.connect() as connection:
        for _ in range(3):
            assert connection.get("/excess").body == b"ok"
            assert connection.get("/ok").body == b"ok"


def test_interim_responses(script: Script, tmp_path: Path) -> None:
    with in_front(script, tmp_path) as (node, _):
        with node.connect() as connection:
            connection.send(b"GET /hints HTTP/1.1\r\nHost: h\r\n\r\n")
            hints = connection._read_until(b"\r\n\r\n")
            assert hints == b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nVia: 1.1 n1\r\n\r\n"
            assert connection.read_reply().body == b"ok"
        with node.connect() as connection:
            connection.send(b"GET /hints HTTP/1.0\r\nHost: h\r\n\r\n")
            assert connection.read_reply().body == b"ok"
        assert node.get("/switch").status == 502
        with node.connect() as connection:
            connection.send(b"GET /endless-hints HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            answer = connection.read_to_end()
            assert (answer.count(b"HTTP/1.1 103 "), answer.count(b"HTTP/1.1 502 ")) == (16, 1)
        assert node.get("/both").status == 502
        assert node.get("/huge-head").status == 502
        assert node.get("/piecemeal").body == b"ok"


def test_events_pass_as_they_come(script: Script, tmp_path: Path) -> None:
    with in_front(script, tmp_path) as (node, _), node.connect() as connection:
        connection.send(b"GET /events HTTP/1.1\r\nHost: h\r\n\r\n")
        assert b"text/event-stream" in connection._read_until(b"\r\n\r\n")
        assert connection._read_until(b"1\n\n\r\n") == b"9\r\ndata: 1\n\n\r\n"  # the server has sent no more
        script.go_on.set()
        assert connection._read_until(b"0\r\n\r\n") == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"
        assert connection.get("/ok").body == b"ok"


def test_a_small_body_is_read_before_the_server_is_contacted(script: Script, tmp_path: Path) -> None:
    with in_front(script, tmp_path) as (node, server), node.connect() as slow:
        slow.send(b"POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n" + b"x" * 59_999)
        with node.connect() as chunked:
            chunked.send(b"POST /read HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            assert node.get("/ok").body == b"ok"
            assert server.requests == 1
            assert node.metric("qosweb_requests_in_service") == 0  # they hold no channel either
            chunked.send(b"0\r\n\r\n")
            assert chunked.read_reply().body == b"abc"
        slow.send(b"xGET /ok HTTP/1.1\r\nHost: h\r\n\r\n")
        assert slow.read_reply().body == b"x" * 60_000
        assert slow.read_reply().body == b"ok"


def test_a_body_that_is_too_large_is_refused(script: Script, tmp_path: Path) -> None:
    with in_front(script, tmp_path, *LIMITS) as (node, server):
        for body in (
            b"Content-Length: 1048577\r\nExpect: 100-continue\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n100001\r\n" + b"x" * 1_048_577,
        ):
            with node.connect() as connection:
                connection.send(b"POST /read HTTP/1.1\r\nHost: h\r\n" + body)
                reply = connection.read_reply()
                assert (reply.status, reply.headers["connection"]) == (413, "close")
                assert b"at most 1,048,576 bytes" in reply.body
        assert all(b"Content-Length: 1048577" not in head for head in server.heads)
        with node.connect() as connection:
            connection.send(b"POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n" + bytes(1 << 20))
            assert len(connection.read_reply().body) == 1 << 20


@pytest.mark.parametrize("length", [60_000, 1_000_000])
def test_a_body_that_comes_too_slowly_is_refused(script: Script, tmp_path: Path, length: int) -> None:
    """Small and large: a byte now and then does not keep the request alive."""
    with in_front(script, tmp_path, *LIMITS) as (node, _), node.connect() as connection:
        connection.send(b"POST /read HTTP/1.1\r\nHost: slow.example\r\nContent-Length: %d\r\n\r\n" % length)
        connection.sock.settimeout(0.2)

        def has_answer() -> bool:
            try:
                connection.send(b"x")
                connection._fill()
            except TimeoutError:
                return False
            return True

        wait_for(lambda: has_answer() or None, "an answer", 30)
        reply = connection.read_reply()
        assert reply.status == 408
        assert b"more slowly than 100KB per second" in reply.body
        wait_for(lambda: node.metric("qosweb_requests_in_service") == 0 or None, "nothing in service")


def test_targets_and_values_pass_as_they_came(script: Script, tmp_path: Path) -> None:
    long_segment, long_path = b"/" + b"s" * 300, b"/d" * 2_200
    with in_front(script, tmp_path) as (node, server), node.connect() as connection:
        for sent, asked in (
            (b"//a//b/?x=%2f&y=//", b"//a//b/?x=%2f&y=//"),
            (b"/%7Euser/%e4%BD?", b"/%7Euser/%e4%BD?"),
            (b"http://other.example?q=1", b"/?q=1"),
            (b"http://other.example", b"/"),
            (long_segment, long_segment),
            (long_path, long_path),
        ):
            connection.send(b"GET %b HTTP/1.1\r\nHost: h\r\nCookie: a=\xe4\xff\r\nX-Empty:\r\n\r\n" % sent)
            assert connection.read_reply().body == b"ok"
            assert server.heads[-1].startswith(b"GET %b HTTP/1.1\r\n" % asked)
            assert b"\r\nCookie: a=\xe4\xff\r\n" in server.heads[-1]
            assert b"\r\nX-Empty: \r\n" in server.heads[-1]


def test_a_request_has_one_id_everywhere(script: Script, tmp_path: Path) -> None:
    with in_front(script, tmp_path) as (node, server):
        reply = node.get("/ok", "X-Request-Id: mine", "traceparent: 00-0af7-b7ad-01")
        rid = reply.headers["x-request-id"]
        assert b"\r\nX-Request-Id: %b\r\n" % rid.encode() in server.heads[-1] + b"\r\n"
        assert b"\r\ntraceparent: 00-0af7-b7ad-01\r\n" in server.heads[-1]
        line = wait_for(lambda: next(iter(node.log()), None), "its line in the log")
        assert (line["rid"], line["status"]) == (rid, 200)
        assert 0 < line["first_byte_ms"] <= line["service_ms"]


def test_options_stops_where_max_forwards_says(script: Script, tmp_path: Path) -> None:
    with in_front(script, tmp_path) as (node, server):
        assert node.get("/ok", "Max-Forwards: 0", method="OPTIONS").status == 204
        assert server.requests == 0
        assert node.get("/ok", "Max-Forwards: 1", method="OPTIONS").status == 200
        assert b"\r\nMax-Forwards: 0\r\n" in server.heads[0]


def test_the_request_id_of_a_trusted_proxy_is_kept(script: Script, tmp_path: Path) -> None:
    with in_front(script, tmp_path, "--trust-proxy", "127.0.0.0/8") as (node, server):
        for _ in range(3):
            reply = node.get("/ok", "X-Request-Id: theirs/1", "X-Forwarded-For: 192.0.2.7")
            assert reply.headers["x-request-id"] == "theirs/1"
            assert b"\r\nX-Request-Id: theirs/1" in server.heads[-1]
            assert b"\r\nX-Forwarded-For: 192.0.2.7, 127.0.0.1\r\n" in server.heads[-1]
        lines = wait_for(lambda: node.log() if len(node.log()) == 3 else None, "their lines in the log")
        assert {(line["request_id"], line["client"]) for line in lines} == {("theirs/1", "192.0.2.7")}
        assert node.get("/ok", "X-Request-Id: not valid").headers["x-request-id"] != "not valid"
