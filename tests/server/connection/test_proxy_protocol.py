"""PROXY protocol: the client's address comes before the first byte of HTTP or TLS."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.server.connection.proxy_protocol import HEADER_LEN_MAX, BadProxyHeader, bytes_missing, source_of
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.tls import client_context, write_certificate
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
TEXT = b"PROXY TCP4 192.0.2.7 192.0.2.9 4711 80\r\n"
GET = b"GET /page.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"


def binary(source: str, *, command: int = 0x21, family: int | None = None, more: bytes = b"") -> bytes:
    """A header of version 2 from ``source``; ``more`` follows its addresses."""
    packed = IPv6Address(source).packed if ":" in source else IPv4Address(source).packed
    body = 2 * packed + b"\x12\x67\0\x50" + more
    kind = family if family is not None else 0x21 if ":" in source else 0x11
    return SIGNATURE + bytes((command, kind)) + len(body).to_bytes(2) + body


def read(data: bytes) -> tuple[str | None, int]:
    """The source in ``data``, and how many bytes its header has, read in the smallest pieces."""
    begun = b""
    while (count := bytes_missing(begun)) != 0:
        piece = data[len(begun) : len(begun) + (count or 1)]
        if not piece:
            raise EOFError
        begun += piece
    return source_of(begun), len(begun)


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (TEXT, "192.0.2.7"),
        (b"PROXY TCP6 2001:DB8::7 2001:db8::9 1 65535\r\n", "2001:db8::7"),
        (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", "192.0.2.7"),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        (binary("192.0.2.7"), "192.0.2.7"),
        (binary("2001:db8::7"), "2001:db8::7"),
        (binary("192.0.2.7", more=b"\x04" * 300), "192.0.2.7"),
        (binary("192.0.2.7", command=0x20), None),
        (binary("192.0.2.7", family=0), None),
        (SIGNATURE + b"\x20\0\0\0", None),
        (SIGNATURE + b"\x21\x31\0\xd8" + b"/" * 216, None),
    ],
)
def test_the_source_is_read_and_nothing_after_the_header(header: bytes, source: str | None) -> None:
    assert read(header + GET) == (source, len(header))
    for end in range(len(header)):
        with pytest.raises(EOFError):
            read(header[:end])


@pytest.mark.parametrize(
    "header",
    [
        GET,
        b"\x16\x03\x01" + bytes(200),
        b"PROXY\r\n" + bytes(20),
        b"PROXY TCP4 192.0.2.7\r\n",
        b"PROXY TCP4 2001:db8::7 2001:db8::9 1 2\r\n",
        b"PROXY TCP6 192.0.2.7 192.0.2.9 1 2\r\n",
        b"PROXY TCP4 192.0.2.07 192.0.2.9 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.9 1 65536\r\n",
        b"PROXY TCP4 192.0.2.7  192.0.2.9 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.9 1 2\n",
        b"PROXY UNKNOWNS 1\r\n",
        b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n",
        binary("192.0.2.7", command=0x11),
        binary("192.0.2.7", command=0x22),
        binary("192.0.2.7", family=0x12),
        binary("192.0.2.7", family=0x21),
        binary("192.0.2.7", more=bytes(HEADER_LEN_MAX)),
    ],
)
def test_malformed_headers_are_rejected(header: bytes) -> None:
    with pytest.raises(BadProxyHeader):
        read(header + GET)


@given(st.sampled_from([b"", SIGNATURE, b"PROXY ", b"PROXY TCP4 "]), st.binary(max_size=200))
def test_any_bytes_give_a_source_or_an_error(start: bytes, rest: bytes) -> None:
    try:
        source, size = read(start + rest)
    except (BadProxyHeader, EOFError):
        return
    assert size <= HEADER_LEN_MAX
    assert source is None or IPv4Address(source) if "." in (source or ".") else IPv6Address(source or "")


# ---- nodes


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "page.txt").write_bytes(b"page")
    return folder


@pytest.fixture(scope="module")
def node(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """It trusts 127.0.0.2 and the network 10.0.0.0/8."""
    options = ("--proxy-protocol", "--trust-proxy", "127.0.0.2", "--trust-proxy", "10.0.0.0/8")
    with RunningNode(site, tmp_path_factory.mktemp("node"), *options, "--header-timeout", "2s") as started:
        yield started


def from_proxy(node: RunningNode) -> RawConnection:
    return RawConnection(node.port, source="127.0.0.2")


def clients(node: RunningNode, host: str) -> list[str]:
    """The clients of the requests to ``host`` in the log, which has at least one."""
    return wait_for(lambda: [line["client"] for line in node.log() if line["host"] == host], f"requests to {host}")


def get(host: str, *fields: str) -> bytes:
    return "".join(f"{line}\r\n" for line in ("GET /page.txt HTTP/1.1", f"Host: {host}", *fields, "")).encode()


@pytest.mark.parametrize(
    ("header", "client"),
    [(TEXT, "192.0.2.7"), (binary("2001:db8::7"), "2001:db8::7"), (b"PROXY UNKNOWN\r\n", "127.0.0.2")],
    ids=["text", "binary", "unknown"],
)
def test_the_client_of_a_proxy(node: RunningNode, header: bytes, client: str) -> None:
    host = f"h{len(header)}.example"
    with from_proxy(node) as connection:
        connection.send(header + get(host))
        assert connection.read_reply().body == b"page"
        for byte in get(host):
            connection.send(bytes((byte,)))
        assert connection.read_reply().body == b"page"
    wait_for(lambda: clients(node, host) == [client, client], "two requests of the client")


def test_a_header_in_pieces(node: RunningNode) -> None:
    for number, header in enumerate((TEXT, binary("192.0.2.7", more=b"\x04" * 50))):
        with from_proxy(node) as connection:
            for byte in header:
                connection.send(bytes((byte,)))
            connection.send(get(f"pieces{number}.example"))
            assert connection.read_reply().status == 200
        assert clients(node, f"pieces{number}.example") == ["192.0.2.7"]


def test_a_proxy_behind_the_proxy_reports_its_client(node: RunningNode) -> None:
    with from_proxy(node) as connection:
        connection.send(binary("10.0.0.9") + get("two.example", "X-Forwarded-For: 192.0.2.8"))
        assert connection.read_reply().status == 200
    with from_proxy(node) as connection:  # 192.0.2.7 is no proxy
        connection.send(TEXT + get("one.example", "X-Forwarded-For: 192.0.2.8"))
        assert connection.read_reply().status == 200
    assert clients(node, "two.example") == ["192.0.2.8"]
    assert clients(node, "one.example") == ["192.0.2.7"]


def test_others_connect_without_a_header(node: RunningNode) -> None:
    with node.connect() as connection:
        connection.send(get("direct.example"))
        assert connection.read_reply().status == 200
    assert clients(node, "direct.example") == ["127.0.0.1"]
    with node.connect() as connection:
        connection.send(TEXT + GET)
        assert connection.read_reply().status in (400, 501)


def test_a_malformed_header_closes_the_connection_and_is_counted(node: RunningNode) -> None:
    before = node.metric("qosweb_connections_refused_total", reason="proxy_header")
    for bad in (GET, b"PROXY TCP4 x\r\n" + GET, binary("192.0.2.7", family=0x12)):
        with from_proxy(node) as connection:
            connection.send(bad)
            assert connection.read_to_end() == b""
    wait_for(
        lambda: node.metric("qosweb_connections_refused_total", reason="proxy_header") == before + 3, "three counted"
    )
    wait_for(lambda: any("--proxy-protocol" in line and "127.0.0.2" in line for line in node.stderr), "the message")


def test_a_header_must_come_in_time_and_checks_without_one_are_no_fault(node: RunningNode) -> None:
    bad = node.metric("qosweb_connections_refused_total", reason="proxy_header")
    late = node.metric("qosweb_connections_refused_total", reason="header_timeout")
    from_proxy(node).close()
    with from_proxy(node) as connection:
        connection.send(TEXT[:20])
        assert connection.read_to_end() == b""
    assert node.metric("qosweb_connections_refused_total", reason="header_timeout") == late + 1
    assert node.metric("qosweb_connections_refused_total", reason="proxy_header") == bad
    wait_for(lambda: node.metric("qosweb_connections") == 0, "all connections to end")


def test_limits_count_the_client_and_not_the_proxy(site: Path, tmp_path: Path) -> None:
    options = ("--proxy-protocol", "--trust-proxy", "127.0.0.2", "--max-connections-per-client", "3")
    with RunningNode(site, tmp_path, *options) as node, ExitStack() as stack:

        def status_of(source: str) -> int:
            connection = stack.enter_context(from_proxy(node))
            connection.send(binary(source) + GET)
            return connection.read_reply().status

        assert [status_of(f"192.0.2.{number}") for number in range(10)] == [200] * 10
        assert [status_of("192.0.2.77") for _ in range(4)] == [200, 200, 200, 429]
        assert node.metric("qosweb_connections_refused_total", reason="client_limit") == 1
        assert node.metric("qosweb_connections_accepted_total") == 14


def test_the_header_comes_before_the_tls_handshake(site: Path, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path / "tls")
    options = ("--tls-cert", str(certificate), "--tls-key", str(key), "--proxy-protocol")
    with RunningNode(site, tmp_path, *options, "--max-connections-per-client", "2") as node, ExitStack() as stack:

        def secure(header: bytes) -> RawConnection:
            connection = stack.enter_context(node.connect())
            connection.send(header)
            connection.sock = client_context(certificate).wrap_socket(connection.sock, server_hostname="localhost")
            return connection

        for header in (TEXT, binary("192.0.2.7")):
            connection = secure(header)
            assert connection.get("/page.txt").body == b"page"
        wait_for(lambda: [line["client"] for line in node.log()] == ["192.0.2.7"] * 2, "the client in the log")
        with pytest.raises(OSError):  # noqa: PT011  # ended or reset: its client has two connections
            secure(binary("192.0.2.7")).get("/page.txt")
        assert secure(binary("192.0.2.8")).get("/page.txt").body == b"page"
        with stack.enter_context(node.connect()) as bare, pytest.raises(OSError):  # noqa: PT011  # no header
            client_context(certificate).wrap_socket(bare.sock, server_hostname="localhost")
        wait_for(
            lambda: node.metric("qosweb_connections_refused_total", reason="proxy_header") == 1, "the missing header"
        )
        for _ in range(5):  # silent ones do not count for the proxy's address
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=20))
        assert secure(binary("192.0.2.9")).get("/page.txt").body == b"page"
