"""Limits on one client: size, time and connections; good clients are served in any case."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nodes import RunningNode
from tests.support.raw import Closed, RawConnection
from tests.support.sites import LARGE, write_site
from tests.support.tls import client_context, write_certificate
from tests.support.waiting import wait_for

UNSHARED = ("--client-share", "100%")  # one client may have everything

pytestmark = [pytest.mark.timing, pytest.mark.long]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("limits") / "site")


def cut_off(node: RunningNode, reason: str) -> float:
    return node.metric("qosweb_connections_refused_total", reason=reason)


# Size


@pytest.fixture(scope="module")
def small_heads(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    options = ["--max-request-line", "256", "--max-header-size", "1KB", "--max-headers", "8"]
    with RunningNode(site, tmp_path_factory.mktemp("small"), *options) as node:
        yield node


def head_of(*, line: int = 60, size: int = 0, fields: int = 1) -> bytes:
    """A request head with the given request line length, size in bytes and number of fields."""
    request_line = b"GET /?" + b"q" * (line - 15) + b" HTTP/1.1\r\n"
    others = [b"Host: localhost\r\n", *(b"X-%d: 1\r\n" % at for at in range(1, fields))]
    missing = size - len(request_line) - len(b"".join(others)) - 2
    if missing > 0:
        others.append(b"X: " + b"x" * (missing - 5) + b"\r\n")
    return b"".join([request_line, *others, b"\r\n"])


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (head_of(line=250), 200),
        (head_of(line=258), 414),
        (head_of(line=900), 414),
        (head_of(size=1024), 200),
        (head_of(size=1025), 431),
        (head_of(size=9000), 431),
        (head_of(fields=8), 200),
        (head_of(fields=9), 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", 413),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 413),
        (b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000\r\n\r\nbody", 413),
        (b"HEAD / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", 200),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 200),
    ],
)
@pytest.mark.parametrize("piece", [100_000, 100, 1])
def test_limits_on_the_request(small_heads: RunningNode, head: bytes, status: int, piece: int) -> None:
    """The limits hold for any split into pieces."""
    with small_heads.connect() as connection:
        with contextlib.suppress(ConnectionError):  # it may be answered before it is complete
            for at in range(0, len(head), piece):
                connection.send(head[at : at + piece])
        reply = connection.read_reply(head_only=head.startswith(b"HEAD"))
        assert reply.status == status
        if status != 200:
            assert reply.headers["connection"] == "close"
            assert connection.is_closed()


def test_a_flood_of_header_bytes_is_answered_and_cut_off(small_heads: RunningNode) -> None:
    with small_heads.connect() as connection:
        connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(1000):
                connection.send(b"x" * 65536)
    assert small_heads.get("/").status == 200


# Time


def trickle(connection: RawConnection, data: bytes) -> None:
    """Send one byte after the other until the server closes."""
    with contextlib.suppress(OSError):
        for at in range(len(data)):
            connection.send(data[at : at + 1])
            time.sleep(0.02)


def test_a_head_that_trickles_in_is_given_up(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--header-timeout", "1s") as node, node.connect() as connection:
        assert connection.get("/").status == 200
        sender = threading.Thread(target=trickle, args=(connection, b"GET / HTTP/1.1\r\nX: " + b"x" * 2000))
        started = time.monotonic()
        sender.start()
        try:
            reply = connection.read_reply()
        finally:
            connection.sock.shutdown(socket.SHUT_RDWR)
            sender.join(60)
        assert (reply.status, reply.headers["connection"]) == (408, "close")
        assert 0.9 < time.monotonic() - started < 20
        assert cut_off(node, "header_timeout") == 1


def test_an_ignored_body_that_does_not_arrive_is_given_up(site: Path, tmp_path: Path) -> None:
    head = b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n"
    with RunningNode(site, tmp_path, "--header-timeout", "1s") as node, node.connect() as connection:
        assert connection.get("/").status == 200
        sender = threading.Thread(target=trickle, args=(connection, head + b"x" * 1999))
        sender.start()
        try:
            reply = connection.read_reply()
        finally:
            connection.sock.shutdown(socket.SHUT_RDWR)
            sender.join(60)
        assert (reply.status, reply.headers["connection"]) == (408, "close")
        assert cut_off(node, "header_timeout") == 1


def test_a_client_that_ends_in_an_ignored_body_is_gone(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node, node.connect() as connection:
        connection.send(b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhell")
        connection.half_close()
        assert connection.read_to_end() == b""
        wait_for(lambda: [line["status"] for line in node.log()] == [499], "its line in the log")


def test_a_client_that_expects_to_be_asked_for_an_ignored_body_is_asked(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node, node.connect() as connection:
        connection.send(b"OPTIONS / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert connection._read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(b"hello")
        assert connection.read_reply().status == 204
        assert connection.get("/").status == 200


def test_connections_without_a_request_are_closed(site: Path, tmp_path: Path) -> None:
    options = ["--header-timeout", "600ms", "--idle-timeout", "3s"]
    with RunningNode(site, tmp_path, *options) as node, node.connect() as silent, node.connect() as idle:
        started = time.monotonic()
        assert idle.get("/").status == 200
        assert silent.is_closed()
        assert time.monotonic() - started >= 0.6
        assert idle.get("/").status == 200  # its time begins anew with each request
        asked = time.monotonic()
        assert idle.is_closed()
        assert time.monotonic() - asked >= 2.9
        assert cut_off(node, "idle_timeout") == 2


def test_idle_time_begins_after_the_answer(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--idle-timeout", "1500ms") as node, node.connect() as connection:
        connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection._read_until(b"\r\n\r\n")
        time.sleep(1.7)  # a transfer longer than the idle time
        ending = time.monotonic()
        connection._read_exactly(LARGE)
        assert connection.is_closed()
        assert time.monotonic() - ending >= 1.4


@pytest.mark.parametrize("over_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("asked", ["one large file", "many small files"])
def test_a_reader_that_takes_nothing_is_cut_off(site: Path, tmp_path: Path, over_tls: bool, asked: str) -> None:
    options, context = ["--send-timeout", "1s"], None
    if over_tls:
        certificate, key = write_certificate(tmp_path / "tls")
        options += ["--tls-cert", str(certificate), "--tls-key", str(key)]
        context = client_context(certificate)
    with RunningNode(site, tmp_path, *options) as node, node.connect(tls=context) as connection:
        if asked == "one large file":
            connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        else:
            connection.sock.settimeout(0.3)
            with pytest.raises(TimeoutError):  # noqa: PT012
                while True:
                    connection.send(b"GET /thick.html HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        wait_for(lambda: cut_off(node, "send_timeout") == 1, "the reader to be cut off")
        wait_for(lambda: node.metric("qosweb_connections") == 0, "the connection to end")
        assert node.metric("qosweb_open_files") == 0
        assert node.metric("qosweb_requests_in_service") == 0
        with node.connect(tls=context) as another:
            assert another.get("/").status == 200


def test_a_steady_slow_reader_is_left_alone(site: Path, tmp_path: Path) -> None:
    """It reads 100 KB a second; the server demands 16 KB in two seconds."""
    with RunningNode(site, tmp_path, "--send-timeout", "2s") as node, node.connect() as connection:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection._read_until(b"\r\n\r\n")
        until = time.monotonic() + 3.5
        taken = 0
        while time.monotonic() < until:
            taken += len(connection._read_exactly(10_000))
            time.sleep(0.1)
        assert cut_off(node, "send_timeout") == 0


def test_a_reader_that_pauses_now_and_then_is_left_alone(site: Path, tmp_path: Path) -> None:
    """Each pause is much shorter than the timeout; the pauses are further apart than the timeout."""
    batch = b"GET /thick.html HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200  # answers that no socket buffer holds
    with RunningNode(site, tmp_path, "--send-timeout", "2s") as node:
        is_whole, longest_s = read_with_pauses(node, batch)
        while longest_s >= 2:  # this machine made the pauses longer: they say nothing
            is_whole, longest_s = read_with_pauses(node, batch)
        assert is_whole


def read_with_pauses(node: RunningNode, batch: bytes) -> tuple[bool, float]:
    """Whether the response was complete, and the longest time in which nothing may have been read."""
    longest_s = 0.0
    with node.connect() as connection:
        for interval_s in (1.4, 0):
            began = time.monotonic()
            try:
                connection.send(batch)
                time.sleep(1)
                for _ in range(200):
                    assert connection.read_reply().status == 200
            except (Closed, ConnectionError):
                return False, max(longest_s, time.monotonic() - began)
            longest_s = max(longest_s, time.monotonic() - began)
            time.sleep(interval_s)
    return True, longest_s


# Connections


def test_one_client_may_hold_only_so_many_connections(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--max-connections-per-client", "5") as node, contextlib.ExitStack() as held:
        mine = [held.enter_context(node.connect()) for _ in range(5)]
        wait_for(lambda: node.metric("qosweb_connections") == 5, "five connections")
        reply = node.get("/")
        assert (reply.status, reply.headers["retry-after"], reply.headers["connection"]) == (429, "1", "close")
        with RawConnection(node.port, source="127.0.0.2") as other:
            assert other.get("/").status == 200
        assert mine[0].get("/").status == 200
        mine.pop().close()
        wait_for(lambda: node.get("/").status == 200, "the place to be free again")
        assert cut_off(node, "client_limit") >= 1


def test_a_new_connection_displaces_one_without_a_request(site: Path, tmp_path: Path) -> None:
    with (
        RunningNode(site, tmp_path, "--max-connections", "20", *UNSHARED) as node,
        contextlib.ExitStack() as held,
    ):
        speaker = held.enter_context(node.connect())
        assert speaker.get("/").status == 200
        silent = [held.enter_context(node.connect()) for _ in range(19)]
        wait_for(lambda: node.metric("qosweb_connections") == 20, "a full table")
        for _ in range(10):
            with node.connect() as newcomer:
                assert newcomer.get("/").status == 200
        assert silent[0].is_closed()  # the one that waited longest
        assert speaker.get("/").status == 200
        assert cut_off(node, "displaced") >= 1


def test_a_new_connection_displaces_the_longest_idle_one(site: Path, tmp_path: Path) -> None:
    with (
        RunningNode(site, tmp_path, "--max-connections", "5", *UNSHARED) as node,
        contextlib.ExitStack() as held,
    ):
        idle = [held.enter_context(node.connect()) for _ in range(5)]
        for connection in [*idle, idle[0]]:
            assert connection.get("/").status == 200
        newcomer = held.enter_context(node.connect())
        assert newcomer.get("/").status == 200
        assert idle[1].is_closed()
        assert all(connection.get("/").status == 200 for connection in [idle[0], *idle[2:]])


def test_when_all_connections_are_busy_a_new_one_is_rejected(site: Path, tmp_path: Path) -> None:
    with (
        RunningNode(site, tmp_path, "--max-connections", "3", *UNSHARED) as node,
        contextlib.ExitStack() as held,
    ):
        for _ in range(3):
            connection = held.enter_context(node.connect())
            connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection._read_until(b"\r\n\r\n")
        reply = node.get("/")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert cut_off(node, "full") == 1
        assert len(connection._read_exactly(LARGE)) == LARGE  # a busy connection, which must not be displaced


def test_connections_leave_descriptors_when_few_files_may_be_open(site: Path, tmp_path: Path) -> None:
    few_files = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"]
    with (
        RunningNode(site, tmp_path, *UNSHARED, before=few_files) as node,
        contextlib.ExitStack() as held,
    ):
        assert "the system allows 200 open files" in node.stderr[0]
        for _ in range(300):
            held.enter_context(node.connect())
        assert node.get("/").status == 200
        assert len(node.get("/large.bin").body) == LARGE
        assert node.admin("/livez") == "ok\n"
        assert 60 <= node.metric("qosweb_connections") <= 68


def test_only_so_many_files_are_sent_at_one_time(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--max-open-files", "1", *UNSHARED) as node, node.connect() as busy:
        busy.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        busy._read_until(b"\r\n\r\n")
        with node.connect() as other:
            reply = other.get("/large.bin")
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert other.get("/").status == 200
        busy._read_exactly(LARGE)
        wait_for(lambda: node.metric("qosweb_open_files") == 0, "the file to be closed")
        assert len(node.get("/large.bin").body) == LARGE


# A part of everything


def test_one_client_gets_only_a_part_of_the_connections(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--max-connections", "40") as node, contextlib.ExitStack() as held:
        for _ in range(10):  # a quarter
            assert held.enter_context(node.connect()).get("/").status == 200
        assert node.get("/").status == 429
        for last in (2, 3, 4):
            for _ in range(10):
                other = held.enter_context(RawConnection(node.port, source=f"127.0.0.{last}"))
                assert other.get("/").status == 200
        assert node.metric("qosweb_connections") == 40
        assert cut_off(node, "displaced") == 0


def test_one_client_gets_only_a_part_of_the_open_files(site: Path, tmp_path: Path) -> None:
    options = ["--max-open-files", "4", "--client-share", "50%"]
    with RunningNode(site, tmp_path, *options) as node, contextlib.ExitStack() as held:

        def transfer(source: str) -> RawConnection:
            connection = held.enter_context(RawConnection(node.port, source=source))
            connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection._read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
            return connection

        mine = [transfer("127.0.0.1") for _ in range(2)]
        with node.connect() as another:
            for _ in range(3):
                reply = another.get("/large.bin")
                assert (reply.status, reply.headers["retry-after"]) == (429, "1")
            assert another.get("/").status == 200
        theirs = [transfer("127.0.0.2") for _ in range(2)]
        with RawConnection(node.port, source="127.0.0.3") as third:
            assert third.get("/large.bin").status == 503  # all places are taken
        for connection in mine + theirs:
            connection._read_exactly(LARGE)
        wait_for(lambda: node.metric("qosweb_open_files") == 0, "the files to be closed")
        assert len(node.get("/large.bin").body) == LARGE
        wait_for(lambda: sum(line["decision"] == "denied" for line in node.log()) == 3, "three denials in the log")
        assert {line["status"] for line in node.log() if line["decision"] == "denied"} == {429}
        assert node.metric("qosweb_rejected_requests_total", **{"class": "default"}, reason="client_share") == 3
