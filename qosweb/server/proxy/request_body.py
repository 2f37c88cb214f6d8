"""Request body buffer between a client and another server, with back-pressure.

The connection feeds it; the relay iterates over it. When more than HIGH bytes wait, reading from the client is paused
until fewer than LOW bytes wait.
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
        """``message`` is a request with a body. ``pause`` and ``resume`` control reading from the client."""
        self.active_at = now  # when the client last sent bytes, or reading was last resumed
        self.taken_at = now  # when the other server last took bytes
        self.waiting = 0  # bytes
        self.broken: str | None = None  # why the body will never be complete
        self._body: Body  # RFC 9112 section 6.3
        self._body = ChunkedBody() if message.chunked else SizedBody(int(message.headers["Content-Length"]))
        self._parts: deque[bytes] = deque()
        self._paused = False
        self._pause = pause
        self._resume = resume
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all of the body has arrived."""
        return self._body.is_complete

    @property
    def waits_for_client(self) -> bool:
        """Whether the client is to send more; if not, the other server is to take more."""
        return not self.is_complete and not self._paused

    def feed(self, data: bytes, now: float) -> bytes:
        """Add bytes from the client. Returns the bytes after the end of the body."""
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
        """Iterate over the body as it arrives. Raises BadBody."""
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
        """End the body before it is complete."""
        self.broken = why
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
