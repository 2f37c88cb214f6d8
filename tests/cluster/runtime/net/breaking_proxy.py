"""TCP proxy between two members that can be cut at any byte."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Proxy:
    """Forwards bytes to `target`. After `cut_after` bytes in one direction, both sides are reset in mid-frame."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self.cut_after = 1 << 62
        self.passed = 0
        self.cuts = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            other_reader, other_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        self._writers.append(other_writer)
        for source, sink in ((reader, other_writer), (other_reader, writer)):
            task = asyncio.get_running_loop().create_task(self._pump(source, sink, (writer, other_writer)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, both: tuple[asyncio.StreamWriter, ...]
    ) -> None:
        try:
            while data := await source.read(65536):
                self.passed += len(data)
                if self.passed >= self.cut_after:
                    self.cut_after = 1 << 62
                    self.cuts += 1
                    sink.write(data[: len(data) // 2 + 1])
                    await sink.drain()
                    break
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        for writer in both:
            writer.transport.abort()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()
