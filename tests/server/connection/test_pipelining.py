"""Persistent connections and pipelining (RFC 9112 section 9.3): responses are complete and in request order."""

import hashlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import psutil
import pytest

from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection, Reply

SMALL = b"".join(b"<p>%d" % n for n in range(40))
MEDIUM = hashlib.shake_128(b"medium").digest(60 << 10)
LARGE = hashlib.shake_128(b"large").digest(3 << 20)  # above --cache-file-max: from disk, by sendfile
MEMORY_GROWTH_MAX = 24 << 20


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch = tmp_path_factory.mktemp("pipelining")
    site = scratch / "site"
    (site / "directory").mkdir(parents=True)
    for name, content in (("small.html", SMALL), ("medium.bin", MEDIUM), ("large.bin", LARGE)):
        (site / name).write_bytes(content)
    (site / "directory" / "index.html").write_text("<p>index")
    for number in range(100):
        (site / f"{number}.html").write_text(f"<p>page {number}")
    with RunningNode(site, scratch, "--send-timeout", "5m") as running:
        yield running


@dataclass(frozen=True)
class Call:
    """One request and its expected response; ``body`` None: any."""

    target: str
    status: int = 200
    body: bytes | None = None
    fields: tuple[str, ...] = ()
    method: str = "GET"
    version: str = "HTTP/1.1"

    @property
    def data(self) -> bytes:
        lines = [f"{self.method} {self.target} {self.version}", "Host: localhost", *self.fields, "", ""]
        return "\r\n".join(lines).encode()

    def take(self, connection: RawConnection) -> Reply:
        reply = connection.read_reply(head_only=self.method == "HEAD")
        assert reply.status == self.status, self
        assert self.body is None or reply.body == self.body, self
        return reply


def pages(numbers: range) -> list[Call]:
    return [Call(f"/{number}.html", 200, f"<p>page {number}".encode()) for number in numbers]


def mixed(small_tag: str) -> list[Call]:
    """One request for each path through the server."""
    return [
        Call("/small.html", 200, SMALL),
        Call("/small.html", 200, b"", method="HEAD"),
        Call("/small.html", 304, b"", (f"If-None-Match: {small_tag}",)),
        Call("/none.html", 404),
        Call("/none.html", 404, b"", method="HEAD"),
        Call("/large.bin", 200, LARGE),
        Call("/small.html", 206, SMALL[5:10], ("Range: bytes=5-9",)),
        Call("/large.bin", 206, LARGE[-5:], ("Range: bytes=-5",)),
        Call("/large.bin", 200, b"", method="HEAD"),
        Call("/large.bin", 206, LARGE[100 : 2 << 20], (f"Range: bytes=100-{(2 << 20) - 1}",)),
        Call("/small.html", 206, None, ("Range: bytes=0-0, 2-3",)),
        Call("/large.bin", 206, None, ("Range: bytes=0-99, 2000000-2999999",)),
        Call("/large.bin", 416, None, ("Range: bytes=9999999-",)),
        Call("/directory", 301),
        Call("/directory/", 200, b"<p>index"),
        Call("/small.html", 412, None, ('If-Match: "other"',)),
        Call("/small.html", 405, None, method="DELETE"),
        Call("*", 204, b"", method="OPTIONS"),
        Call("/medium.bin", 200, MEDIUM),
        Call("/large.bin", 304, b"", ("If-None-Match: *",)),
        Call("/small.html", 417, None, ("Expect: more",)),
        Call("/large.bin", 200, LARGE),
        Call("/small.html", 200, SMALL, version="HTTP/1.0", fields=("Connection: keep-alive",)),
    ]


def test_a_hundred_requests_in_one_write(node: RunningNode) -> None:
    calls = pages(range(100))
    with node.connect() as connection:
        for _ in range(3):  # from the disk, then from memory
            connection.send(b"".join(call.data for call in calls))
            for call in calls:
                call.take(connection)


def test_a_thousand_requests_one_after_another(node: RunningNode) -> None:
    with node.connect() as connection:
        for _ in range(10):
            for call in pages(range(100)):
                connection.send(call.data)
                call.take(connection)


@pytest.mark.parametrize("shift", range(0, 23, 4))
def test_all_kinds_in_one_pipeline(node: RunningNode, shift: int) -> None:
    calls = mixed(node.get("/small.html").headers["etag"])
    calls = (calls[shift:] + calls[:shift]) * 2
    with node.connect() as connection:
        connection.send(b"".join(call.data for call in calls))
        for call in calls:
            call.take(connection)
        assert connection.get("/small.html").body == SMALL


def test_all_kinds_on_a_connection_cut_into_odd_pieces(node: RunningNode) -> None:
    calls = mixed(node.get("/small.html").headers["etag"])
    data = b"".join(call.data for call in calls)
    with node.connect() as connection:
        for at in range(0, len(data), 37):
            connection.send(data[at : at + 37])
        for call in calls:
            call.take(connection)


def test_requests_that_arrive_while_a_large_file_is_sent_wait_their_turn(node: RunningNode) -> None:
    with node.connect() as connection:
        connection.send(Call("/large.bin").data)
        first = connection.sock.recv(1000)
        calls = pages(range(50))
        connection.send(b"".join(call.data for call in calls))
        connection._buffer = first
        Call("/large.bin", 200, LARGE).take(connection)
        for call in calls:
            call.take(connection)


def fill(connection: RawConnection, control: RawConnection, call: Call, requests_max: int) -> int:
    """Send the call repeatedly without reading until the server reads no more; returns the bytes that it read."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # small, so that it comes to this soon
        connection.sock.setsockopt(socket.SOL_SOCKET, option, 32 << 10)
    data = call.data * requests_max
    sent = refused = 0
    connection.sock.setblocking(False)
    while sent < len(data) and refused < 20:
        try:
            sent += connection.sock.send(data[sent : sent + 65536])
            refused = 0
        except BlockingIOError:
            refused += 1
            assert control.get("/small.html").status == 200  # the server had its turn, and serves others
    connection.sock.settimeout(20)
    return sent


def test_clients_that_never_read_fill_only_their_own_buffers(node: RunningNode) -> None:
    process = psutil.Process(node.process.pid)
    calls = [*[Call("/medium.bin"), Call("/large.bin"), Call("/none.html")] * 3, Call("/medium.bin", method="HEAD")]
    with ExitStack() as stack:
        control, *connections = (stack.enter_context(node.connect()) for _ in range(1 + len(calls)))
        control.get("/medium.bin")
        before = process.memory_info().rss
        for call, connection in zip(calls, connections, strict=True):
            assert fill(connection, control, call, 300_000) < 300_000 * len(call.data), "it takes whatever comes"
        growth = process.memory_info().rss - before
        assert control.get("/small.html").body == SMALL
    assert growth < MEMORY_GROWTH_MAX, f"{growth >> 20} MiB for {len(calls)} connections"
    assert node.get("/small.html").body == SMALL


def test_a_client_that_reads_late_gets_everything(node: RunningNode) -> None:
    call = Call("/medium.bin", 200, MEDIUM, fields=(f"X-Padding: {'x' * 8000}",))
    with node.connect() as control, node.connect() as connection:
        sent = fill(connection, control, call, 3000)
        assert sent < 3000 * len(call.data), "the server took everything: nothing was late"
        count, rest = divmod(sent, len(call.data))
        for _ in range(count):
            call.take(connection)
        if rest:
            connection.send(call.data[rest:])
            call.take(connection)
        assert connection.get("/small.html").body == SMALL


@pytest.mark.parametrize("count", [1, 3, 30])
def test_half_closed_after_the_requests(node: RunningNode, count: int) -> None:
    calls = [Call("/large.bin", 200, LARGE), *pages(range(count)), Call("/large.bin", 200, LARGE)][-count:]
    with node.connect() as connection:
        connection.send(b"".join(call.data for call in calls))
        connection.half_close()
        for call in calls:
            call.take(connection)
        assert connection.is_closed()


def test_half_closed_within_a_request(node: RunningNode) -> None:
    with node.connect() as connection:
        connection.send(Call("/small.html").data + b"GET /smal")
        connection.half_close()
        Call("/small.html", 200, SMALL).take(connection)
        assert connection.is_closed()


@pytest.mark.parametrize("target", ["/small.html", "/large.bin", "/none.html", "/directory"])
@pytest.mark.parametrize("host", [True, False])
def test_http_1_0_closes(node: RunningNode, target: str, host: bool) -> None:
    with node.connect() as connection:
        connection.send(f"GET {target} HTTP/1.0\r\n{'Host: localhost' if host else 'X: y'}\r\n\r\n".encode())
        assert connection.read_reply().headers["connection"] == "close"
        assert connection.is_closed()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("target", "status"), [("/small.html", 200), ("/large.bin", 200), ("/none.html", 404)])
def test_http_1_0_with_keep_alive_stays(node: RunningNode, method: str, target: str, status: int) -> None:
    call = Call(target, status, fields=("Connection: Keep-Alive",), method=method, version="HTTP/1.0")
    with node.connect() as connection:
        connection.send(call.data * 5)
        for _ in range(5):
            assert call.take(connection).headers["connection"].lower() == "keep-alive"
        connection.send(Call(target, version="HTTP/1.0").data)
        assert connection.read_reply().headers["connection"] == "close"
        assert connection.is_closed()


@pytest.mark.parametrize("target", ["/small.html", "/large.bin", "/none.html"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_connection_close_ends_the_pipeline(node: RunningNode, target: str, method: str) -> None:
    before = pages(range(5))
    last = Call(target, 404 if target == "/none.html" else 200, fields=("Connection: close",), method=method)
    with node.connect() as connection:
        connection.send(b"".join(call.data for call in [*before, last, *pages(range(5, 10))]))
        for call in before:
            assert "connection" not in call.take(connection).headers
        assert last.take(connection).headers["connection"] == "close"
        assert connection.is_closed()


def test_http_1_1_says_nothing_about_the_connection_that_stays(node: RunningNode) -> None:
    with node.connect() as connection:
        for target in ("/small.html", "/large.bin", "/none.html"):
            assert "connection" not in connection.get(target).headers
            assert "connection" not in connection.get(target, "Connection: keep-alive").headers


def test_as_many_fields_as_the_limit_allows(node: RunningNode) -> None:
    names = [f"X-Field-{number}: {'y' * 100}" for number in range(100)]
    with node.connect() as connection:
        for _ in range(3):
            assert connection.get("/small.html", *names[:99]).body == SMALL  # and Host
        assert connection.get("/small.html", *names).status == 431
        assert connection.is_closed()
