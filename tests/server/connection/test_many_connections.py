"""Thousands of idle connections, floods of garbage, and memory that grows with neither."""

import asyncio
import random
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.load import Hammer
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.sites import write_site
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timing

IDLE = 10_000
GARBAGE = 3_000
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("crowds") / "site")


def resident(node: RunningNode) -> int:
    """Resident memory of the node's process in bytes."""
    size: int = psutil.Process(node.process.pid).memory_info().rss
    return size


@contextmanager
def many_files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"needs {count} open files (ulimit -n); the system allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_idle_connections(site: Path, tmp_path: Path) -> None:
    options = ["--max-connections", "10100", "--max-connections-per-client", "10100", "--max-open-files", "100"]
    options += ["--client-share", "100%"]
    with many_files(IDLE + 500), RunningNode(site, tmp_path, *options) as node:
        reply = node.get("/")
        size = len(reply.raw_head) + len(reply.body)
        before = resident(node)
        crowd: list[socket.socket] = []
        try:
            for _ in range(IDLE):
                connection = socket.create_connection(("127.0.0.1", node.port), timeout=20)
                crowd.append(connection)
                connection.sendall(GET)
            for connection in crowd:
                assert len(connection.recv(size, socket.MSG_WAITALL)) == size
            assert node.metric("qosweb_connections") == IDLE
            assert (resident(node) - before) / IDLE < 12 << 10
            for _ in range(20):
                assert node.get("/").status == 200
            for connection in crowd[:: IDLE // 100]:
                connection.sendall(GET)
                assert len(connection.recv(size, socket.MSG_WAITALL)) == size
            assert node.metric("qosweb_connections_refused_total", reason="displaced") == 0
        finally:
            for connection in crowd:
                connection.close()
        wait_for(lambda: node.metric("qosweb_connections") == 0, "the crowd to be gone")
        assert node.get("/").status == 200


# Garbage


def garbage(chance: random.Random) -> bytes:
    return chance.choice(
        [
            b"",
            chance.randbytes(200),
            b"\x16\x03\x01" + chance.randbytes(300),
            b"GET / HTTP/1.1\r\nHost: local",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
            b"GET /" + b"a" * 20_000,
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"\r\n" * 500,
            GET * 50 + b"\0",
        ]
    )


async def throw_garbage(port: int, seed: int) -> None:
    """Connections that send garbage and then close, reset or stay open; a bounded number at one time."""
    chance = random.Random(seed)
    at_once = asyncio.Semaphore(150)

    async def throw(data: bytes, stays: bool) -> None:
        async with at_once:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.3", 0))
            except OSError:
                return
            writer.write(data)
            if stays:
                await asyncio.sleep(0.2)
            writer.transport.abort()

    await asyncio.gather(*(throw(garbage(chance), chance.random() < 0.3) for _ in range(GARBAGE)))


@pytest.mark.parametrize("limit", [300, 12_000], ids=["full", "roomy"])
def test_a_flood_of_garbage_keeps_no_good_client_out(site: Path, tmp_path: Path, limit: int) -> None:
    options = ["--max-connections", str(limit), "--max-connections-per-client", str(limit), "--client-share", "100%"]
    with (
        RunningNode(site, tmp_path, *options) as node,
        ExitStack() as held,
        Hammer(node.port, ["/", "/page.html"], clients=2) as good,
    ):
        for _ in range(250):  # connections that stay open and send nothing
            held.enter_context(RawConnection(node.port, source="127.0.0.4"))
        flood = threading.Thread(target=asyncio.run, args=(throw_garbage(node.port, 7),))
        flood.start()
        newcomers = 0
        while flood.is_alive() or not newcomers:
            assert node.get("/").status == 200
            newcomers += 1
        flood.join(60)
        good.stop()
        assert set(good.statuses) == {200}
        assert node.metric("qosweb_connections_refused_total", reason="malformed") > 100
        assert (node.metric("qosweb_connections_refused_total", reason="displaced") > 0) == (limit == 300)
        held.close()
        wait_for(lambda: node.metric("qosweb_connections") == 0, "the flood to be gone")
        assert node.metric("qosweb_requests_in_service") == 0
        assert node.stop() == 0
    assert len(node.log()) >= good.answers + newcomers
    assert not [line for line in node.stderr if "Traceback" in line or "rror" in line]


# Memory


def pipelined(connection: RawConnection, count: int, size: int) -> None:
    for _ in range(count // 500):
        connection.send(GET * 500)
        connection._read_exactly(500 * size)


def various(node: RunningNode, numbers: range) -> None:
    """Requests that all differ from each other."""
    with node.connect() as connection:
        for start in numbers[::100]:
            heads = [
                f"GET /{'' if at % 2 else 'missing'}?{at} HTTP/1.1\r\nHost: h{at}.example\r\n"
                f"Accept-Encoding: gzip;q=0.{at}\r\nUser-Agent: {at}\r\n\r\n"
                for at in range(start, start + 100)
            ]
            connection.send("".join(heads).encode())
            for at in range(start, start + 100):
                assert connection.read_reply().status == (200 if at % 2 else 404)


def test_memory_does_not_grow_with_requests(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node, node.connect() as connection:
        reply = connection.get("/")
        size = len(reply.raw_head) + len(reply.body)
        pipelined(connection, 60_000, size)
        various(node, range(2_000))
        before = resident(node)
        pipelined(connection, 60_000, size)
        various(node, range(2_000, 4_000))
        assert resident(node) - before < 4 << 20
        assert node.stop() == 0
    assert node.access_log.read_bytes().count(b"\n") == 124_001
