"""Proxies in front of real members that delay, stall and reset connections in mid-frame.

TCP hides packet loss and reordering: a process sees them as delay, stalls and closed connections. A proxy does that to
the stream itself, so it needs no kernel support.
"""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from tests.support.misbehaving import free_port

if TYPE_CHECKING:
    from types import TracebackType

CHUNK = 4096


class Badness(msgspec.Struct, frozen=True):
    """Which faults a proxy injects."""

    delay_s: float = 0.0  # maximum delay of a chunk; half of that on average
    stall_share: float = 0.0  # share of chunks after which the stream stalls
    stall_s: float = 0.0
    reset_share: float = 0.0  # share of chunks in the middle of which the connection is reset


GOOD = Badness()


class Wires:
    """A thread with its own event loop; one proxy per member."""

    def __init__(self, names: str, seed: int = 0) -> None:
        self.badness = GOOD
        self.chunks = self.stalls = self.resets = 0
        self._chance = random.Random(seed)
        self._ports = {name: free_port() for name in names}
        self._addresses: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    def listen(self, name: str) -> str:
        """The address on which the member itself listens."""
        return f"127.0.0.1:{self._ports[name]}"

    def address(self, name: str) -> str:
        """The address on which peers reach the member."""
        return self._addresses[name]

    def __enter__(self) -> Wires:
        self._thread.start()
        for name in self._ports:
            self._addresses[name] = asyncio.run_coroutine_threadsafe(self._lay(name), self._loop).result(10)
        return self

    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _lay(self, name: str) -> str:
        server = await asyncio.start_server(lambda r, w: self._accept(name, r, w), "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _accept(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._ports[name])
        except OSError:
            writer.transport.abort()
            return
        both = (writer, far_writer)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = self._loop.create_task(self._carry(source, sink, both))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, both: tuple[asyncio.StreamWriter, ...]
    ) -> None:
        chance = self._chance
        with suppress(ConnectionError, asyncio.CancelledError):
            while data := await source.read(CHUNK):
                bad = self.badness
                self.chunks += 1
                if chance.random() < bad.reset_share:
                    self.resets += 1
                    sink.write(data[: chance.randrange(len(data))])
                    await sink.drain()
                    break
                if chance.random() < bad.stall_share:
                    self.stalls += 1
                    await asyncio.sleep(bad.stall_s)
                elif bad.delay_s:
                    await asyncio.sleep(chance.random() * bad.delay_s)
                sink.write(data)
                await sink.drain()
        for writer in both:
            writer.transport.abort()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
