"""TCP_INFO of a real connection, and a node that looks for its line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING

import pytest

from qosweb.server.pacing import tcp_info
from qosweb.server.process.node import Node
from qosweb.settings import gather
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qosweb.engine.laws.line_samples import TcpInfo


@pytest.mark.skipif(not tcp_info.is_available(), reason="needs TCP_INFO of Linux 5.5 or later")
def test_the_figures_of_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            before = tcp_info.read(server)
            assert before.is_idle
            server.sendall(bytes(30_000))
            got = 0
            while got < 30_000:
                got += len(client.recv(1 << 16))
            after = wait_for(lambda: acknowledged(server), "the acknowledgements")
            assert after.bytes_acked - before.bytes_acked == 30_000
            assert after.bytes_sent == 30_000
            assert after.bytes_retransmitted == 0
            assert 500 <= after.mss <= 65_536
            assert 0 < after.min_rtt <= after.rtt * 8 < 80_000_000
        with pytest.raises(OSError, match="descriptor"):
            tcp_info.read(server)


def acknowledged(server: socket.socket) -> TcpInfo | None:
    info = tcp_info.read(server)
    return info if info.is_idle else None


def test_a_node_shows_the_state_of_its_line_and_serves(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page").write_bytes(bytes(100_000))
    (tmp_path / "site.webqos").write_text("</a>.server_resource > 10%\n")
    with RunningNode(
        tmp_path / "site", tmp_path, "--spec", str(tmp_path / "site.webqos"), "--find-line", "yes"
    ) as node:
        for _ in range(20):
            assert len(node.get("/page").body) == 100_000
        line = json.loads(node.admin("/status"))["capacity"]["line"]
        assert line["state"] in ("released", "holding", "draining", "unavailable")


LONG = 10 << 20  # more than the socket buffers of both sides
LINE_BPS = 20_000_000  # two channels


def test_downloads_that_began_before_the_line_was_full_lend_their_channels_and_arrive(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    content = os.urandom(LONG)
    (tmp_path / "site" / "long").write_bytes(content)
    (tmp_path / "site" / "page").write_bytes(b"page")
    (tmp_path / "site.webqos").write_text(
        "set lifetime = 60s\nset channel = 1MB in 100ms\n</page>.server_resource = 50%\n"
    )

    async def story() -> None:
        settings = gather(
            {
                "root": str(tmp_path / "site"), "listen": "127.0.0.1:0", "access-log": "none", "find-line": "yes",
                "spec": str(tmp_path / "site.webqos"), "client-share": "100%", "send-timeout": "200s",
            },
            {}, {}, "",
        )  # fmt: skip
        node = Node(settings)
        try:
            port = int((await node.start()).address.rpartition(":")[2])
            assert node.line is not None
            node.line.close()  # it may have an opinion of its own
            slow = [await open_slowly(port) for _ in range(4)]
            for _, writer in slow:
                writer.write(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: node.admission.in_service == len(slow))
            await blocked(node)
            assert node.pacer is not None
            node.pacer.set_rate(LINE_BPS)
            node._on_line_rate(LINE_BPS)
            client = await asyncio.to_thread(RawConnection, port)
            page = await asyncio.wait_for(asyncio.to_thread(client.get, "/page"), 50)
            client.close()
            assert page.body == b"page"
            node.pacer.set_rate(float("inf"))
            node._on_line_rate(None)
            reader, _ = slow[0]
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 OK" in head
            assert await reader.readexactly(LONG) == content
            for _, writer in slow:
                writer.close()
        finally:
            await node.close()

    with contextlib.closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(asyncio.wait_for(story(), 100))
        loop.run_until_complete(loop.shutdown_default_executor())


async def open_slowly(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that does not read until it is asked to, with a small buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return await asyncio.open_connection(sock=client, limit=1 << 16)


async def blocked(node: Node) -> None:
    """Wait until no response proceeds any more, because all socket buffers are full."""
    before, unchanged = -1, 0
    while unchanged < 20:
        await asyncio.sleep(0.02)
        sent = sum(getattr(connection, "_sender").sent for connection in node.connections._all)  # noqa: B009
        before, unchanged = sent, unchanged + 1 if sent == before else 0


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
