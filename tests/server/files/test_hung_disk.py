"""A disk that hangs: the request gets an error response, and the connection continues."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from qosweb.server.process.node import Node
from qosweb.settings import gather
from tests.support.raw import RawConnection

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_read_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page.txt").write_text("page")

    async def story() -> tuple[int, str, int]:
        settings = gather(
            {"root": str(tmp_path / "site"), "listen": "127.0.0.1:0", "access-log": "none", "send-timeout": "200ms"},
            {},
            {},
            "",
        )
        node = Node(settings)
        try:
            port = int((await node.start()).address.rpartition(":")[2])
            with monkeypatch.context() as hung:
                hung.setattr(node.store, "fetch", lambda *_: None)
                connection = await asyncio.to_thread(RawConnection, port)
                first = await asyncio.to_thread(connection.get, "/page.txt")
            second = await asyncio.to_thread(connection.get, "/page.txt")
            connection.close()
            return first.status, first.headers["retry-after"], second.status
        finally:
            await node.close()

    began = time.monotonic()
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        assert loop.run_until_complete(story()) == (503, "10", 200)
        loop.run_until_complete(loop.shutdown_default_executor())
    assert time.monotonic() - began >= 0.2
