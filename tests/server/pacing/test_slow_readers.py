"""Slow readers on a node with a set capacity: they hold connections, not capacity or channels."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW = 12
ASKED = 10
PAGE = bytes(16 << 10)
SPEC = """\
set lifetime = 30min
set channel = 32KB in 250ms
</now>.available = always
</minor>.server_resource = 10%
</a>.server_resource = 60%
</b>.server_resource = 30%
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch = tmp_path_factory.mktemp("slow")
    for name in ("now", "minor", "a", "b"):
        (scratch / "site" / name).mkdir(parents=True)
        (scratch / "site" / name / "page").write_bytes(PAGE)
    (scratch / "site" / "minor" / "large").write_bytes(bytes(8 << 20))
    (scratch / "site.webqos").write_text(SPEC)
    options = ("--spec", str(scratch / "site.webqos"), "--capacity", "512KB/s", "--send-timeout", "10min")
    with RunningNode(scratch / "site", scratch, *options) as started:
        yield started


@pytest.fixture(scope="module")
def slow_readers(node: RunningNode) -> Iterator[list[RawConnection]]:
    """Each reads the head of a large page, and then nothing."""
    with ExitStack() as stack:
        opened = []
        for _ in range(SLOW):
            one = stack.enter_context(RawConnection(node.port))
            one.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.send(b"GET /minor/large HTTP/1.1\r\nHost: h\r\n\r\n")
            opened.append(one)
        for one in opened:
            assert one.sock.recv(12) == b"HTTP/1.1 200"
        yield opened


def test_channels_are_lent_and_all_slow_readers_are_in_service(
    node: RunningNode, slow_readers: list[RawConnection]
) -> None:
    """The pipe has four channels: without lending, four of them would be in service."""
    assert len(slow_readers) == node.metric("qosweb_requests_in_service") == SLOW
    wait_for(lambda: used_channels(node) == 0, "all channels to be lent")


def used_channels(node: RunningNode) -> int:
    [pipe] = json.loads(node.admin("/status"))["nodes"].values()
    return int(pipe["channels"])


@pytest.mark.usefixtures("slow_readers")
def test_always_available_pages_do_not_wait_and_others_keep_their_shares(node: RunningNode) -> None:
    done = Event()
    with ThreadPoolExecutor(8) as threads:
        counts = [threads.submit(ask, node, f"/{name}/page", done) for name in "ab" for _ in range(4)]
        wait_for(lambda: len(node.log()) > 40, "load")
        for _ in range(ASKED):
            assert node.get("/now/page").body == PAGE
        wait_for(lambda: len(node.log()) > 240, "more load")
        done.set()
        a, b = sum(one.result() for one in counts[:4]), sum(one.result() for one in counts[4:])
    assert a / (a + b) == pytest.approx(2 / 3, abs=0.08)
    lines = [line for line in node.log() if line["class"] == "/now"]
    assert len(lines) == ASKED
    assert max(float(str(line["queue_ms"])) for line in lines) == 0


def ask(node: RunningNode, path: str, done: Event) -> int:
    """Ask again and again. Returns how often."""
    count = 0
    with node.connect() as connection:
        while not done.is_set():
            assert connection.get(path).body == PAGE
            count += 1
    return count


def test_a_slow_reader_that_reads_on_gets_more(slow_readers: list[RawConnection]) -> None:
    got = 0
    while got < 160 << 10:  # more than all buffers hold
        piece = slow_readers[0].sock.recv(1 << 16)
        assert piece
        got += len(piece)
