"""Fast path of forwarded requests: whatever the server does, its clients and the log see what a full relay shows.

A request with a field Upgrade, and no Connection that names it, takes the full path and is forwarded without the field.
"""

from __future__ import annotations

import json
import re
from signal import Signals
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import OK, MisbehavingServer, Talk
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER = b"HTTP/1.1 200 OK\r\n"
CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"
SPEC = "</ok>.available = always\n</b>.server_resource > 10%\n"
FULL = b"Upgrade: x\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
BIG = bytes(range(256)) * 4096

RESPONSES = {
    "ok": OK,
    "created": b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\nLocation: /x\r\n\r\nnew",
    "empty": HEADER + b"Content-Length: 0\r\n\r\n",
    "none": b"HTTP/1.1 204 No Content\r\nETag: x\r\n\r\n",
    "same": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    "missing": b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
    "error": b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno",
    "date": HEADER + b"Date: Tue, 17 Nov 2026 10:00:00 GMT\r\nContent-Length: 2\r\n\r\nok",
    "chunked": HEADER + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "events": HEADER + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "links": HEADER + b"Link: </a>; rel=next\r\nContent-Length: 2\r\n\r\nok",
    "qos": HEADER + b"QoS-Class: theirs\r\nQoS-Decision: served\r\nContent-Length: 2\r\n\r\nok",
    "closes": HEADER + b"Connection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nok",
    "hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
    "excess": OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    "both": HEADER + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "garbage": b"what?\r\n\r\n",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "big": HEADER + b"Content-Length: %d\r\n\r\n" % len(BIG) + BIG,
}


def respond(talk: Talk) -> None:
    """Respond as the path says. A path of several words is sent in so many pieces."""
    length = int(talk.field("Content-Length") or 0)
    body = talk.read(length)
    name, *words = talk.path.lstrip("/").partition("?")[0].split("-")
    if name == "echo":
        talk.send(HEADER + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    elif name == "until":
        talk.send(HEADER + b"\r\nto the end")
        talk.close()
    elif name == "cut":
        talk.send(HEADER + b"Content-Length: 9\r\n\r\nhalf")
        talk.close()
    elif name == "stale" and talk.number > 1:
        talk.close()
    else:
        response = RESPONSES.get(name, OK)
        if talk.head.startswith(b"HEAD "):
            response = response.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        pieces = len(words) + 1
        size = -(-len(response) // pieces)
        for at in range(0, len(response), size):
            talk.send(response[at : at + size])
            if pieces > 1:
                talk.pause(0.02)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "spec.webqos").write_text(SPEC)
    options = ("--spec", str(folder / "spec.webqos"), "--access-log-fields", "query,user_agent")
    with MisbehavingServer(respond) as server, RunningNode(None, folder, "--upstream", server.url, *options) as running:
        yield running


def request(target: str, *, method: str = "GET", body: bytes | None = None, full: bool = False) -> bytes:
    lines = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
    lines += FULL if full else b""
    return b"%b /%b HTTP/1.1\r\nHost: h\r\n%b\r\n%b" % (method.encode(), target.encode(), lines, body or b"")


def warm(node: RunningNode) -> None:
    """Leave an idle connection to the server: the fast path needs one."""
    assert node.get("/warm", "Upgrade: x").status == 200


def in_service(node: RunningNode) -> int:
    """Requests at the server."""
    return sum(one["in_service"] for one in json.loads(node.admin("/status"))["upstreams"].values())


def seen(node: RunningNode, data: bytes) -> bytes:
    """What the client gets for ``data``, without ids and times."""
    warm(node)
    with node.connect() as connection:
        connection.send(data + LAST)
        raw = connection.read_to_end()
    return re.sub(rb"(X-Request-Id|Date): [^\r]*", rb"\1: x", raw)


def logged(node: RunningNode, path: str, method: str) -> list[dict[str, object]]:
    """The three lines of the log for ``path``, without ids and times."""

    def find() -> list[dict[str, object]] | None:
        found = [line for line in node.log() if (line["path"], line["method"]) == (path, method)]
        return found if len(found) == 3 else None

    times = ("ts", "rid", "queue_ms", "service_ms", "total_ms", "first_byte_ms", "work")
    lines = wait_for(find, f"the lines of {method} {path}")
    assert all(("first_byte_ms" in line) is (line["status"] != 502) for line in lines)
    return [{name: value for name, value in line.items() if name not in times} for line in lines]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_fast_path_shows_what_the_full_path_shows(node: RunningNode, method: str) -> None:
    names = [*RESPONSES, "ok-in-three", "big-in-three-pieces", "chunked-in-two"]
    if method == "GET":
        names += ["until", "cut"]
    else:
        names.remove("hints")  # its final response would be missing
    for name in names:
        full = seen(node, request(name, method=method, full=True))
        assert seen(node, request(name, method=method)) == full, name
        assert seen(node, request(name, method=method)) == full, name  # its head is known now
    for name in names:
        lines = logged(node, f"/{name}", method)
        assert lines == lines[:1] * 3


@pytest.mark.parametrize("body", [None, b"", b"x", BIG[:4096], BIG[:60_000]], ids=lambda body: repr(body)[:8])
def test_bodies_pass(node: RunningNode, body: bytes | None) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        full = seen(node, request("echo?a=b", method=method, body=body, full=True))
        for _ in range(2):
            assert seen(node, request("echo?a=b", method=method, body=body)) == full
        assert (body or b"") in full


def test_a_body_that_comes_in_pieces_passes(node: RunningNode) -> None:
    warm(node)
    data = request("echo", method="POST", body=BIG[:5000])
    for at in (10, len(data) - 4990, len(data) - 1):
        with node.connect() as connection:
            connection.send(data[:at])
            assert node.get("/ok").status == 200  # the node has read the first piece
            connection.send(data[at:])
            assert connection.read_reply().body == BIG[:5000]


def test_a_request_that_has_to_wait_is_forwarded_and_logged_as_on_the_full_path(tmp_path: Path) -> None:
    def respond_late(talk: Talk) -> None:
        if talk.path == "/slow":
            talk.pause(0.2)
        respond(talk)

    with MisbehavingServer(respond_late) as server:
        config, spec = tmp_path / "qosweb.toml", tmp_path / "spec.webqos"
        config.write_text(f"[[upstream]]\nurl = '{server.url}'\nslots = 1\n")
        spec.write_text(SPEC)
        options = ("--config", str(config), "--spec", str(spec), "--access-log-fields", "query,user_agent")
        with RunningNode(None, tmp_path, *options, "--client-share", "100%", "--trust-proxy", "127.0.0.1") as node:
            for method, body in (("GET", None), ("POST", b"x" * 3000)):
                replies = []
                for lines in (FULL, b"", b"", b""):  # the head of the last one is known
                    data = request("echo?a=b", method=method, body=body)
                    data = data.replace(b"\r\n", b"\r\nX-Forwarded-For: 203.0.113.7\r\n" + lines, 1)
                    with node.connect() as first, node.connect() as second:
                        first.send(request("slow"))
                        wait_for(lambda: in_service(node) == 1 or None, "the first request")
                        second.send(data)
                        reply = second.read_reply()
                        replies.append((reply.status, reply.body, sorted(reply.headers)))
                        assert first.read_reply().status == 200
                assert replies == replies[:1] * 4
                assert replies[0][:2] == (200, body or b"")

                def find(method: str = method) -> list[dict[str, object]] | None:
                    found = [line for line in node.log() if (line["path"], line["method"]) == ("/echo", method)]
                    return found if len(found) == 4 else None

                logged_lines = wait_for(find, f"the lines of {method}")
                assert all(float(str(line["queue_ms"])) > 20 for line in logged_lines), logged_lines
                times = ("ts", "rid", "queue_ms", "service_ms", "total_ms", "first_byte_ms", "work")
                same = [{name: line[name] for name in line if name not in times} for line in logged_lines]
                assert same == same[:1] * 4
                assert same[0]["client"] == "203.0.113.7"


def test_pipelined_requests_get_their_responses_in_order(node: RunningNode) -> None:
    warm(node)
    names = ["ok", "created", "missing", "date", "ok", "empty", "missing"] * 3
    with node.connect() as connection:
        connection.send(b"".join(request(name) for name in names) + request("echo", method="POST", body=b"end"))
        statuses = [connection.read_reply().status for _ in names]
        assert connection.read_reply().body == b"end"
    assert statuses == [{"created": 201, "missing": 404}.get(name, 200) for name in names]


def test_a_client_that_leaves_is_logged(tmp_path: Path) -> None:
    def hang(talk: Talk) -> None:
        if talk.path == "/hang":
            talk.hang()
        else:
            talk.send(OK)

    with MisbehavingServer(hang) as server, RunningNode(None, tmp_path, "--upstream", server.url) as alone:
        warm(alone)
        with alone.connect() as connection:
            assert connection.get("/ok").status == 200
            connection.send(request("hang"))
            wait_for(lambda: server.heads[-1].startswith(b"GET /hang") or None, "the request")
        line = wait_for(lambda: next((one for one in alone.log() if one["path"] == "/hang"), None), "its line")
        assert (line["decision"], line["status"]) == ("failed", 499)
        assert in_service(alone) == 0


def test_time_limits_hold(tmp_path: Path) -> None:
    def hang(talk: Talk) -> None:
        if talk.path == "/hang":
            talk.hang()
        elif talk.path == "/half":
            talk.send(HEADER + b"Content-Length: 9\r\n\r\nhalf")
            talk.hang()
        else:
            talk.send(OK)

    options = ("--upstream-timeout", "1s")
    with MisbehavingServer(hang) as server, RunningNode(None, tmp_path, "--upstream", server.url, *options) as node:
        warm(node)
        assert node.get("/hang").status == 504
        warm(node)
        with node.connect() as connection:
            connection.send(request("half"))
            raw = connection.read_to_end()  # the connection is broken off
        assert raw.endswith(b"\r\n\r\nhalf")


def test_a_stale_connection_is_replaced_and_a_post_is_not_repeated(tmp_path: Path) -> None:
    uses: dict[Talk, int] = {}

    def close_used(talk: Talk) -> None:
        uses[talk] = uses.get(talk, 0) + 1
        talk.read(int(talk.field("Content-Length") or 0))
        if uses[talk] > 1:
            talk.close()
        else:
            talk.send(OK)

    with MisbehavingServer(close_used) as server, RunningNode(None, tmp_path, "--upstream", server.url) as node:
        for method, body, status in (("GET", None, 200), ("PUT", b"x", 200), ("POST", b"x", 502)):
            with node.connect() as connection:
                assert connection.get("/ok").status == 200
                connection.send(request("again", method=method, body=body))
                assert connection.read_reply().status == status
            wait_for(lambda: not in_service(node) or None, "the end")


def test_a_slow_reader_holds_the_server_back(node: RunningNode) -> None:
    warm(node)
    with node.connect() as connection:
        connection.send(request("big") * 20 + LAST)
        assert node.get("/ok").status == 200
        bodies = [connection.read_reply().body for _ in range(20)]
    assert all(body == BIG for body in bodies)


def test_a_new_policy_counts_for_heads_and_pages_that_are_known(tmp_path: Path) -> None:
    spec = tmp_path / "spec.webqos"
    spec.write_text(SPEC)
    with (
        MisbehavingServer(respond) as server,
        RunningNode(None, tmp_path, "--upstream", server.url, "--spec", str(spec)) as node,
        node.connect() as connection,
    ):
        warm(node)

        def class_of(number: int) -> str:
            return connection.get("/b", f"X-Number: {number}").headers["qos-class"]

        before = {class_of(number) for number in (1, 1, 1, 2, 3)}
        assert len(before) == 1
        spec.write_text("</ok>.available = always\n")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: class_of(1) not in before or None, "the policy")
        assert {class_of(number) for number in (1, 2, 3, 4)} == {class_of(1)}


def test_conditions_on_fields_count_for_each_head(tmp_path: Path) -> None:
    spec = tmp_path / "spec.webqos"
    spec.write_text('let gold = header("X-Kind") = "gold"\ngold => </b>.server_resource > 10%\n')
    with (
        MisbehavingServer(respond) as server,
        RunningNode(None, tmp_path, "--upstream", server.url, "--spec", str(spec)) as node,
        node.connect() as connection,
    ):
        warm(node)
        kinds = ("gold", "iron", "gold", "iron") * 3
        classes = [connection.get("/b", f"X-Kind: {kind}").headers["qos-class"] for kind in kinds]
    assert len(set(classes)) == 2
    assert classes == classes[:2] * 6


def ask_as(connection: RawConnection, client: str) -> str:
    """The fields about the client, as the server got them."""
    head = connection.get("/who", f"X-Forwarded-For: {client}").body.decode()
    return "".join(line for line in head.split("\r\n") if line.startswith("X-Forwarded-For"))


def test_each_request_of_a_trusted_proxy_has_its_own_client(tmp_path: Path) -> None:
    def tell_head(talk: Talk) -> None:
        talk.send(HEADER + b"Content-Length: %d\r\n\r\n" % len(talk.head) + talk.head)

    options = ("--trust-proxy", "127.0.0.1")
    with (
        MisbehavingServer(tell_head) as server,
        RunningNode(None, tmp_path, "--upstream", server.url, *options) as node,
        node.connect() as proxy,
        RawConnection(node.port, source="127.0.0.2") as stranger,
    ):
        warm(node)
        clients = ["192.0.2.1", "192.0.2.2", "192.0.2.1"] * 4
        for client in clients:
            assert ask_as(proxy, client) == f"X-Forwarded-For: {client}, 127.0.0.1"
            assert ask_as(stranger, client) == "X-Forwarded-For: 127.0.0.2"
        lines = wait_for(
            lambda: found if len(found := [one for one in node.log() if one["path"] == "/who"]) == 24 else None, "lines"
        )
        assert [line["client"] for line in lines[::2]] == clients
        assert {line["client"] for line in lines[1::2]} == {"127.0.0.2"}
