"""Client address behind trusted proxies: in the log, in conditions, in limits, and for the upstream server."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import MisbehavingServer, Talk
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection, Reply
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROXY = "127.0.0.2"


def show_head(talk: Talk) -> None:
    talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(talk.head) + talk.head)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "page.txt").write_bytes(b"page")
    (folder / "large.bin").write_bytes(bytes(32 << 20))
    return folder


@pytest.fixture(scope="module")
def upstream() -> Iterator[MisbehavingServer]:
    with MisbehavingServer(show_head) as server:
        yield server


@pytest.fixture(scope="module")
def node(site: Path, upstream: MisbehavingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch = tmp_path_factory.mktemp("node")
    with RunningNode(site, scratch, "--trust-proxy", PROXY, "--upstream", upstream.url) as started:
        yield started


def from_proxy(node: RunningNode) -> RawConnection:
    return RawConnection(node.port, source=PROXY)


def line_of(node: RunningNode, host: str) -> list[str]:
    return [line["client"] for line in node.log() if line["host"] == host]


def ask(connection: RawConnection, host: str, *fields: str, target: str = "/page.txt") -> Reply:
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}", *fields, ""]
    connection.send("".join(f"{line}\r\n" for line in lines).encode())
    return connection.read_reply()


def test_each_request_of_a_proxy_has_its_client(node: RunningNode) -> None:
    """Heads repeat, so that they take the fast path, alone and pipelined."""
    of = [f"192.0.2.{number}" for number in (1, 2, 3)]
    heads = [
        f"GET /page.txt HTTP/1.1\r\nHost: fast.example\r\nX-Forwarded-For: 1.1.1.1, {client}\r\n\r\n".encode()
        for client in of
    ]
    with from_proxy(node) as connection:
        for _ in range(6):
            for head in heads:
                connection.send(head)
                assert connection.read_reply().body == b"page"
        connection.send(b"".join(heads * 2))
        for _ in heads * 2:
            assert connection.read_reply().body == b"page"
    wait_for(lambda: len(line_of(node, "fast.example")) == 24, "all lines")
    assert line_of(node, "fast.example") == of * 8


def test_the_same_bytes_from_another_peer_have_another_client(node: RunningNode) -> None:
    fields = ("X-Forwarded-For: 192.0.2.9", "Forwarded: for=192.0.2.9")
    with from_proxy(node) as proxy, node.connect() as stranger:
        for _ in range(6):
            for connection in (proxy, stranger):
                assert ask(connection, "same.example", *fields).status == 200
    wait_for(lambda: len(line_of(node, "same.example")) == 12, "all lines")
    assert line_of(node, "same.example") == ["192.0.2.9", "127.0.0.1"] * 6


def test_a_head_in_pieces_does_not_change_the_client_of_a_known_head(node: RunningNode) -> None:
    known = b"GET /page.txt HTTP/1.1\r\nHost: known.example\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    with from_proxy(node) as connection:
        for _ in range(3):  # it is known now, but not its client
            connection.send(known)
            assert connection.read_reply().status == 200
            wait_for(lambda: line_of(node, "known.example"), "its line")
        connection.send(b"GET /page.txt HTTP/1.1\r\nForwarded: for=192.0.2.66\r\nX: ")
        wait_for(lambda: node.metric("qosweb_connections") == 1, "the connection")
        connection.send(known)
        assert connection.read_reply().status == 200
        connection.send(known)
        assert connection.read_reply().status == 200
    wait_for(lambda: len(line_of(node, "known.example")) == 5, "all lines")
    assert line_of(node, "known.example")[-1] == "192.0.2.1"


def test_a_malformed_request_of_a_proxy_is_logged_under_the_proxy(node: RunningNode) -> None:
    with from_proxy(node) as connection:
        ask(connection, "x.example", "X-Forwarded-For: 192.0.2.1")
        connection.send(b"NONSENSE\r\n\r\n")
        assert connection.read_reply().status == 400
    wait_for(lambda: [line["client"] for line in node.log() if line["method"] == "-"] == [PROXY], "the line")


def told(reply: Reply) -> dict[str, str]:
    """The fields about the client that the upstream server got."""
    fields = [line.partition(": ") for line in reply.body.decode().split("\r\n")[1:]]
    names = ("forwarded", "x-forwarded-for", "x-forwarded-proto", "x-real-ip")
    return {name.lower(): value for name, _, value in fields if name.lower().replace("_", "-") in names}


def test_the_upstream_server_gets_no_claims_of_strangers(node: RunningNode) -> None:
    with node.connect() as connection:
        claims = ("X-Forwarded-For: 1.1.1.1", 'Forwarded: for="1.1.1.1', "X-Real-IP: 1.1.1.1", "X_Forwarded_For: 1.1.1")
        assert told(ask(connection, "a.example", *claims, "X-Forwarded-Proto: https", target="/x")) == {
            "forwarded": 'for=127.0.0.1;host="a.example";proto=http',
            "x-forwarded-for": "127.0.0.1",
            "x-forwarded-proto": "http",
        }


def test_the_upstream_server_gets_the_claims_of_proxies(node: RunningNode) -> None:
    with from_proxy(node) as connection:
        claims = ("X-Forwarded-For: 1.1.1.1, 192.0.2.1", "Forwarded: for=192.0.2.1", "X-Forwarded-Proto: https")
        assert told(ask(connection, "a.example", *claims, target="/x")) == {
            "forwarded": f'for=192.0.2.1, for={PROXY};host="a.example";proto=http',
            "x-forwarded-for": f"1.1.1.1, 192.0.2.1, {PROXY}",
            "x-forwarded-proto": "https",
        }
        assert told(ask(connection, "a.example", 'Forwarded: for="x', target="/x"))["forwarded"].startswith("for=127")


def test_without_the_option_nobody_is_believed(site: Path, upstream: MisbehavingServer, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--upstream", upstream.url) as node, from_proxy(node) as connection:
        for _ in range(4):
            assert ask(connection, "a.example", "X-Forwarded-For: 192.0.2.1").status == 200
        assert told(ask(connection, "a.example", "X-Forwarded-For: 192.0.2.1", target="/x"))["x-forwarded-for"] == PROXY
        wait_for(lambda: line_of(node, "a.example") == [PROXY] * 5, "the lines")


def test_conditions_see_the_client(site: Path, tmp_path: Path) -> None:
    (tmp_path / "site.webqos").write_text("client in 192.0.2.64/26 => </**>.server_resource > 20%\n")
    with (
        RunningNode(site, tmp_path, "--trust-proxy", PROXY, "--spec", str(tmp_path / "site.webqos")) as node,
        from_proxy(node) as connection,
    ):
        for _ in range(5):  # the heads repeat
            classes = {
                client: ask(connection, "a.example", f"X-Forwarded-For: {client}").headers["qos-class"]
                for client in ("192.0.2.65", "192.0.2.1", "192.0.2.100")
            }
            assert classes["192.0.2.65"] == classes["192.0.2.100"] != classes["192.0.2.1"]


def test_a_proxy_may_have_many_connections_and_its_clients_their_share(site: Path, tmp_path: Path) -> None:
    options = ("--max-connections-per-client", "3", "--max-open-files", "4", "--client-share", "25%")
    with RunningNode(site, tmp_path, "--trust-proxy", PROXY, *options) as node, ExitStack() as stack:

        def begin(client: str) -> int:
            """Ask for a large file and read only the head of the response."""
            connection = stack.enter_context(from_proxy(node))
            connection.send(f"GET /large.bin HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n".encode())
            return connection.read_reply(head_only=True).status

        for _ in range(10):
            assert ask(stack.enter_context(from_proxy(node)), "a.example").status == 200
        assert begin("192.0.2.1") == 200
        assert begin("192.0.2.1") == 429
        assert begin("192.0.2.2") == 200
        for _ in range(3):
            assert ask(stack.enter_context(node.connect()), "a.example").status == 200
        assert stack.enter_context(node.connect()).read_reply().status == 429


@pytest.mark.parametrize("options", [(), ("--trust-proxy", PROXY, "--proxy-protocol")], ids=["server", "listener"])
def test_an_ipv4_client_of_an_ipv6_socket_has_its_ipv4_address(
    site: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with RunningNode(site, tmp_path, "--listen", "[::]:0", *options) as node:
        assert node.get("/page.txt").status == 200
        assert node.stop() == 0
    assert [line["client"] for line in node.log()] == ["127.0.0.1"]
