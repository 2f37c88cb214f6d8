"""File sender: one turn of the event loop sends little of a large file, so that small responses come between."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import pytest

from qosweb.server.files.file_sender import FileSender
from qosweb.server.files.files import FileVersion
from qosweb.server.request.answers import FileSpan

if TYPE_CHECKING:
    from pathlib import Path

PIECE = 64 << 10


@pytest.mark.parametrize("size", [3 << 20, 12 << 20])  # copied, and at first with sendfile
def test_a_turn_sends_one_piece(tmp_path: Path, size: int) -> None:
    page = tmp_path / "page"
    page.write_bytes(os.urandom(size))
    head = b"HTTP/1.1 200 OK\r\n\r\n"

    async def story() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        reader, writer = await asyncio.open_connection(sock=theirs)
        done = loop.create_future()
        file = os.open(page, os.O_RDONLY)
        span = FileSpan(b"/page", FileVersion.of(os.fstat(file)), 0, size)
        sender = FileSender(loop, transport, file, (head, span), done.set_result)
        sender.start()
        assert 0 < sender.sent <= PIECE + len(head)  # the socket would take more
        got = await reader.readexactly(len(head) + size)
        assert await done
        assert got == head + page.read_bytes()
        transport.close()
        writer.close()

    asyncio.run(story())
