"""Hostile clients in front of an upstream server: an honest client at another address is still served promptly.

Each attack comes from one address and holds as many connections, requests or buffers as it may.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import OK, MisbehavingServer, Talk
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timing

ATTACKERS = 260
HONEST = "127.0.0.9"
LARGE = hashlib.shake_128(b"large").digest(8 << 20)
ASKED = 300  # by the honest client
SLOW_S = 0.25  # the 99th percentile; without limits the honest client waits for 10 s and gets a 503


def script(talk: Talk) -> None:
    match talk.path:
        case "/large":
            talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE) + LARGE)
        case "/read":
            talk.sock.settimeout(60)
            talk.read(int(talk.field("Content-Length") or 0))
            talk.send(OK)
        case _:
            talk.send(OK)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with (
        MisbehavingServer(script) as server,
        RunningNode(None, tmp_path_factory.mktemp("hostile"), "--upstream", server.url) as node,
    ):
        yield node
        assert not any("internal error" in line for line in node.stderr), node.stderr


def slow_head(connection: RawConnection) -> None:
    connection.send(b"GET /x HTTP/1.1\r\nHost: h\r\nX-Slow: ")


def slow_small_body(connection: RawConnection) -> None:
    connection.send(b"POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nxxx")


def slow_large_body(connection: RawConnection) -> None:
    connection.send(b"POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nxxx")


def slow_reader(connection: RawConnection) -> None:
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")


def many_pages(connection: RawConnection) -> None:
    heads = b"".join(b"GET /%d-%d HTTP/1.1\r\nHost: h\r\n\r\n" % (id(connection), number) for number in range(100))
    with contextlib.suppress(OSError):
        connection.send(heads)


def p99_s(node: RunningNode) -> float:
    """How long the honest client waits. Every answer is as it should be."""
    took = []
    with RawConnection(node.port, source=HONEST) as connection:
        for _ in range(ASKED):
            began = perf_counter()
            assert connection.get("/x").body == b"ok"
            took.append(perf_counter() - began)
    return sorted(took)[int(0.99 * len(took))]


@pytest.mark.parametrize("attack", [slow_head, slow_small_body, slow_large_body, slow_reader, many_pages])
def test_an_honest_client_is_served(node: RunningNode, attack: Callable[[RawConnection], None]) -> None:
    normal_s = p99_s(node)
    with ExitStack() as stack:
        for _ in range(ATTACKERS):
            attack(stack.enter_context(RawConnection(node.port)))
        wait_for(lambda: node.metric("qosweb_connections") > ATTACKERS // 2 or None, "the attackers")
        attacked_s = p99_s(node)
    assert attacked_s < max(SLOW_S, 2 * normal_s)
    wait_for(lambda: node.metric("qosweb_requests_in_service") == 0 or None, "the end of the attack")
