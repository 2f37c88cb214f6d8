"""The body of a request on its way to another server: what has arrived and was not passed on yet, bounded.

The connection feeds it; who passes the body on iterates over it. When more than HIGH bytes wait, the client is no
longer read from, until fewer than LOW do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from qosweb.http.bodies import BadBody, Body, ChunkedBody, SizedBody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp.http import RawRequestMessage

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HIGH = 128 << 10
LOW = 32 << 10


class RequestBody:
    __slots__ = (
        "_body",
        "_parts",
        "_pause",
        "_paused",
        "_resume",
        "_waiter",
        "active_at",
        "broken",
        "taken_at",
        "waiting",
    )

    def __init__(
        self, message: RawRequestMessage, now: float, pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """Of a request that has a body."""
        self.active_at = now  # when the client last sent something, or was last allowed to
        self.taken_at = now  # when the other server last took something
        self.waiting = 0  # bytes
        self.broken: str | None = None  # why there will be no more of it
        self._body: Body  # RFC 9112 section 6.3
        self._body = ChunkedBody() if message.chunked else SizedBody(int(message.headers["Content-Length"]))
        self._parts: deque[bytes] = deque()
        self._paused = False
        self._pause = pause
        self._resume = resume
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_complete(self) -> bool:
        """It has arrived whole."""
        return self._body.is_complete

    @property
    def waits_for_client(self) -> bool:
        """Else it is the other server that does not take it."""
        return not self.is_complete and not self._paused

    def feed(self, data: bytes, now: float) -> bytes:
        """What came. Returns what follows the body."""
        self.active_at = now
        if self.broken is not None:
            return b""
        try:
            part, rest = self._body.feed(data)
        except BadBody as bad:
            self.break_off(str(bad))
            return b""
        if part:
            self._parts.append(part)
            self.waiting += len(part)
            if self.waiting >= HIGH and not self._paused and not self.is_complete:
                self._paused = True
                self._pause()
        self._wake()
        return rest

    async def parts(self, now: Callable[[], float]) -> AsyncIterator[bytes]:
        """The body, as it comes. Raises BadBody."""
        while True:
            if self._parts:
                part = self._parts.popleft()
                self.waiting -= len(part)
                self.taken_at = now()
                if self._paused and self.waiting <= LOW:
                    self._paused = False
                    self.active_at = now()
                    self._resume()
                yield part
            elif self.broken is not None:
                raise BadBody(self.broken)
            elif self.is_complete:
                return
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter

    def break_off(self, why: str) -> None:
        """There will be no more."""
        self.broken = why
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
