"""Watches our own sockets with one epoll instance, which the event loop sees as one file.

The event loop's own file watching is not sufficient: libuv drops a file on which it sees an error, so that a reader of
the data before a reset never learns of the reset.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    OnEvent = Callable[[int], None]

READABLE, WRITABLE = 1, 4  # EPOLLIN and EPOLLOUT
_EVENTS_MAX = 256  # at a time


def make_watcher(loop: asyncio.AbstractEventLoop) -> EpollWatcher | None:
    """None on systems without epoll."""
    return EpollWatcher(loop) if hasattr(select, "epoll") else None


class EpollWatcher:
    """The epoll instance of one process."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._on_events: dict[int, OnEvent] = {}
        loop.add_reader(self._epoll.fileno(), self._look)

    def add(self, file: int, events: int, on_event: OnEvent) -> None:
        """Watch a file. ``on_event`` is called repeatedly while an event lasts (level-triggered)."""
        self._epoll.register(file, events)
        self._on_events[file] = on_event

    def change(self, file: int, events: int) -> None:
        self._epoll.modify(file, events)

    def remove(self, file: int) -> None:
        """Stop watching a file. Call this before closing it."""
        if self._on_events.pop(file, None) is not None:
            self._epoll.unregister(file)

    def close(self) -> None:
        """Close the epoll instance; the sockets belong to their owners."""
        self._loop.remove_reader(self._epoll.fileno())
        self._on_events.clear()
        self._epoll.close()

    async def connect(self, address: str, port: int) -> socket.socket:
        """Connect a non-blocking socket to a numeric address. Raises OSError."""
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        family, kind, protocol, _, where = found[0]
        with contextlib.ExitStack() as on_failure:
            sock = on_failure.enter_context(socket.socket(family, kind, protocol))
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                sock.connect(where)
            except BlockingIOError:
                await self._connected(sock)
            on_failure.pop_all()
            return sock

    async def _connected(self, sock: socket.socket) -> None:
        done = self._loop.create_future()
        self.add(sock.fileno(), WRITABLE, lambda _: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            self.remove(sock.fileno())
        if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code))

    def _look(self) -> None:
        on_events = self._on_events
        for file, events in self._epoll.poll(0, _EVENTS_MAX):
            on_event = on_events.get(file)
            if on_event is not None:  # else an earlier handler closed it
                on_event(events)
