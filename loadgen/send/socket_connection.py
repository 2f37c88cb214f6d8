"""Connection over a socket of our own, with a kernel timestamp for received data."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from loadgen.send.connection import ClientConnection
from loadgen.send.epoll_watcher import READABLE, WRITABLE
from loadgen.send.kernel_timestamps import ROOM, enable_timestamps

if TYPE_CHECKING:
    import socket

    from loadgen.send.epoll_watcher import EpollWatcher
    from loadgen.send.pool import Pool

_READ_MAX = 64 << 10


class SocketConnection(ClientConnection):
    """``sock`` is connected and non-blocking."""

    __slots__ = ("_error", "_file", "_receive", "_rest", "_sock", "_watch")

    def __init__(self, pool: Pool, watch: EpollWatcher, sock: socket.socket) -> None:
        super().__init__(pool)
        enable_timestamps(sock)
        self._watch = watch
        self._sock = sock
        self._file = sock.fileno()
        self._receive = sock.recvmsg
        self._rest: deque[memoryview] = deque()  # unwritten parts of requests
        self._error: OSError | None = None  # from writing
        watch.add(self._file, READABLE, self._on_event)

    def close(self) -> None:
        if not self.closing:
            self._close()
            self._pool.lost(self)

    def _close(self) -> None:
        self.closing = True
        self._watch.remove(self._file)
        self._sock.close()

    def _write(self, payload: bytes, body: bytes) -> None:
        written = 0
        if not self._rest:
            try:
                written = os.writev(self._file, (payload, body)) if body else os.write(self._file, payload)
            except BlockingIOError:
                pass
            except OSError as error:
                self._error = error  # a response may still be readable; reading reports the end after it
                return
            if written == len(payload) + len(body):
                return
            self._watch.change(self._file, READABLE | WRITABLE)
        if written < len(payload):
            self._rest.append(memoryview(payload)[written:])
        if body:
            self._rest.append(memoryview(body)[max(0, written - len(payload)) :])

    def _write_rest(self) -> None:
        rest = self._rest
        try:
            while rest:
                written = os.write(self._file, rest[0])
                if written < len(rest[0]):
                    rest[0] = rest[0][written:]
                else:
                    rest.popleft()
        except BlockingIOError:
            return
        except OSError as error:
            self._error = error
            rest.clear()
        self._watch.change(self._file, READABLE)

    def _on_event(self, events: int) -> None:
        if events & WRITABLE:
            self._write_rest()
            if events == WRITABLE:
                return
        try:
            data, ancillary, _, _ = self._receive(_READ_MAX, ROOM)
        except BlockingIOError:
            return
        except OSError as error:
            self._close()
            self._lost(error)
            return
        if data:
            self._received(data, ancillary)
        else:
            self._close()
            self._lost(self._error)
