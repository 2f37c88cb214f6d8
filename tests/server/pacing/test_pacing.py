"""Paced responses over real sockets: complete, together never faster than the node, and channels are always released.

Only lower bounds on time are asserted: on a busy machine a response may be late.
"""

from __future__ import annotations

import hashlib
import socket
from contextlib import ExitStack
from signal import Signals
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from qosweb.errors import UsageError
from qosweb.settings import gather
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = hashlib.shake_128(b"page").digest(64 << 10)
FILE = hashlib.shake_128(b"file").digest(256 << 10)  # above --cache-file-max: from disk
LONG = hashlib.shake_128(b"long").digest(24 << 20)  # more than the buffers of a socket pair hold
RATE = 512 << 10  # bytes per second of the node
SPEC = """\
set channel = 64KB in 250ms
</narrow*>.channel = 1KB in 1s
</slow*>.channel = 1KB in 4s
"""
BURST = 64 << 10  # what a node may send at once after a pause, and more


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch = tmp_path_factory.mktemp("paced")
    with running(scratch) as started:
        yield started


def running(scratch: Path, *options: str, capacity: str = "512KB/s") -> RunningNode:
    root = scratch / "site"
    root.mkdir()
    for name, content in {
        "page.bin": PAGE,
        "file.bin": FILE,
        "long.bin": LONG,
        "empty.bin": b"",
        "narrow.bin": PAGE[:3000],
        "slow-page.bin": LONG[: 4 << 20],
        "slow-file.bin": LONG,
    }.items():
        (root / name).write_bytes(content)
    spec = scratch / "site.webqos"
    spec.write_text(SPEC)
    return RunningNode(
        root, scratch, "--spec", str(spec), "--capacity", capacity, "--cache-file-max", "200KB", *options
    )


def least_s(size: int) -> float:
    """The time that a node needs at least for this many bytes."""
    return (size - BURST) / RATE


def settled(node: RunningNode) -> bool:
    return node.metric("qosweb_requests_in_service") == 0


def test_files_and_parts_of_them_are_paced(node: RunningNode) -> None:
    began = monotonic()
    assert node.get("/file.bin").body == FILE
    assert monotonic() - began >= least_s(len(FILE))
    began = monotonic()
    reply = node.get("/file.bin", "Range: bytes=1000-201000")
    assert (reply.status, reply.body) == (206, FILE[1000:201001])
    assert monotonic() - began >= least_s(200_000)
    began = monotonic()
    reply = node.get("/file.bin", "Range: bytes=0-30000,100000-240000")
    assert reply.status == 206
    assert FILE[:30001] in reply.body
    assert FILE[100000:240001] in reply.body
    assert monotonic() - began >= least_s(len(reply.body))


def test_the_sum_of_all_responses_is_paced(node: RunningNode) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(node.connect()) for _ in range(8)]
        began = monotonic()
        for connection in connections:
            connection.send(b"GET /page.bin HTTP/1.1\r\nHost: h\r\n\r\n")
        assert [connection.read_reply().body for connection in connections] == [PAGE] * 8
        assert monotonic() - began >= least_s(8 * len(PAGE))


def test_a_response_alone_gets_more_than_its_channel(tmp_path: Path) -> None:
    """In their channels these responses would take over a minute, and over two hours."""
    with running(tmp_path, capacity="100MB/s") as node:
        assert node.get("/long.bin").body == LONG
        assert node.get("/slow-page.bin").body == LONG[: 4 << 20]
        wait_for(lambda: settled(node), "all channels to be free")
        services = [float(str(line["service_ms"])) for line in wait_for(lambda: two_lines(node), "the log")]
        assert max(services) < 30_000


def two_lines(node: RunningNode) -> list[dict[str, object]] | None:
    lines = node.log()
    return lines if len(lines) == 2 else None


def test_responses_without_a_body_are_complete(node: RunningNode) -> None:
    with node.connect() as connection:
        head = connection.get("/page.bin", method="HEAD")
        assert head.headers["content-length"] == str(len(PAGE))
        assert connection.get("/page.bin", f"If-None-Match: {head.headers['etag']}").status == 304
        assert connection.get("/empty.bin").body == b""
        assert connection.get("/page.bin", "Range: bytes=9999999-").status == 416
    wait_for(lambda: settled(node), "all channels to be free")


def test_pipelined_responses_keep_their_order(node: RunningNode) -> None:
    asked = ["/page.bin", "/file.bin", "/empty.bin", "/page.bin"]
    with node.connect() as connection:
        began = monotonic()
        connection.send(b"".join(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode() for path in asked))
        assert [connection.read_reply().body for _ in asked] == [PAGE, FILE, b"", PAGE]
        assert monotonic() - began >= least_s(2 * len(PAGE) + len(FILE))


def test_a_client_that_disconnects_releases_its_channel(node: RunningNode) -> None:
    for path in ("/slow-page.bin", "/slow-file.bin"):
        with node.connect() as connection:
            connection.send(f"GET {path}?gone HTTP/1.1\r\nHost: gone.example\r\n\r\n".encode())
            assert connection.sock.recv(100)
    wait_for(lambda: settled(node), "the channels to be free")
    wait_for(lambda: sum(line["host"] == "gone.example" for line in node.log()) == 2, "their lines in the log")
    for line in node.log():
        if line["host"] == "gone.example":
            assert line["decision"] == "failed"
            assert line["bytes"] < 4 << 20
    assert node.metric("qosweb_open_files") == 0


def test_a_reader_that_stalls_is_cut_off_and_others_are_not(tmp_path: Path) -> None:
    with running(tmp_path, "--send-timeout", "1s") as node, RawConnection(node.port) as stalled:
        stalled.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.send(b"GET /long.bin HTTP/1.1\r\nHost: h\r\n\r\n")
        for _ in range(3):
            assert node.get("/file.bin").body == FILE  # at least half a second, at half the rate a whole one
        wait_for(lambda: node.metric("qosweb_connections_refused_total", reason="send_timeout") == 1, "the cut")
        wait_for(lambda: settled(node), "the channels to be free")
        line = wait_for(lambda: next((one for one in node.log() if one["path"] == "/long.bin"), None), "its line")
        assert line["decision"] == "failed"
        assert line["bytes"] < len(LONG)


def test_a_file_that_changes_on_its_way_is_broken_off(tmp_path: Path) -> None:
    with running(tmp_path, capacity="100MB/s") as node, node.connect() as connection:
        connection.send(b"GET /long.bin HTTP/1.1\r\nHost: h\r\n\r\n")
        begun = connection.sock.recv(100)  # and no more: the rest waits for this client
        (tmp_path / "site" / "long.bin").write_bytes(bytes(len(LONG)))
        _head, _, body = (begun + connection.read_to_end()).partition(b"\r\n\r\n")
        assert len(body) < len(LONG)
        wait_for(lambda: settled(node), "the channel to be free")


def test_draining_lets_paced_responses_end(tmp_path: Path) -> None:
    with running(tmp_path, "--grace", "20s") as node, node.connect() as connection:
        connection.send(b"GET /file.bin HTTP/1.1\r\nHost: h\r\n\r\n")
        wait_for(lambda: node.metric("qosweb_requests_in_service") == 1, "the start")
        node.kill(Signals.SIGTERM)
        assert connection.read_reply().body == FILE
        assert connection.is_closed()
        assert node.process.wait(20) == 0


def test_a_node_without_a_specification_is_paced_too(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page.bin").write_bytes(PAGE)
    with RunningNode(tmp_path / "site", tmp_path, env={"QOSWEB_CAPACITY": "128KB/s"}) as node:
        began = monotonic()
        assert node.get("/page.bin").body == PAGE
        assert monotonic() - began >= (len(PAGE) - 16_000) / (128 << 10)


@pytest.mark.parametrize("value", ["2MB", "fast", "0KB/s", "-1MB/s", "1MB/week", "0"])
def test_an_invalid_capacity_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="--capacity: "):
        gather({"root": "site", "capacity": value}, {}, {}, "")
