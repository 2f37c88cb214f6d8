"""File sender: sends a response from disk with sendfile(2), and with read and write for its tail and under TLS.

There is no task and no thread. The sender runs when the socket is writable, and sends a bounded amount each time. If
the file is replaced by rename meanwhile, the opened version is sent to its end. If the file is overwritten in place,
the sender notices: it compares the version before it releases the last piece. If the version has changed, it breaks the
connection off, so that the client gets an incomplete body and never a complete mixture.

Bytes that sendfile puts into a socket buffer are no copy: they change with the file until the peer has them. So the
last bytes of a response, more than a socket buffer holds, are copied. When the version is compared, the socket buffer
holds only copies. (On one machine such bytes move to the receiver's buffer by reference: a local client that lags by
more than TAIL_BYTES may still see some changes.)

The event loop owns the connection's descriptor and does not allow other watchers on it. So the sender uses a duplicate,
and only while the loop's own write buffer is empty. If there is no descriptor for a duplicate, a plain socket is
written to in the same way as a TLS connection.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import sys
import termios
from collections.abc import Callable

from qosweb.server.files.body_reader import BodyReader, ChangedWhileSending
from qosweb.server.request.answers import Segment

TURN_BYTES = 64 << 10  # sent in one turn of the event loop at most: small responses of other connections come between
TAIL_BYTES = 8 << 20  # copied at the end: twice the default maximum of Linux's send buffer


class FileSender:
    """Sends one response from disk. Calls ``done(complete)`` exactly once, unless closed before."""

    __slots__ = (
        "_done",
        "_handle",
        "_loop",
        "_pieces",
        "_socket",
        "_transport",
        "has_started",
        "sent",
        "size",
        "waited",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        file: int,
        segments: tuple[Segment, ...],
        done: Callable[[bool], None],
    ) -> None:
        """Takes ownership of the open descriptor ``file``. ``segments`` begin with the head of the response."""
        self.sent = 0
        self.has_started = False
        self.waited = False  # whether the client slowed it down
        self._loop = loop
        self._transport = transport
        self._pieces = BodyReader(segments, file)
        self.size = self._pieces.left
        self._done = done
        self._handle: asyncio.Handle | None = None
        self._socket: socket.socket | None = None
        if transport.get_extra_info("sslcontext") is None:
            with contextlib.suppress(OSError):
                self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
                self._socket.setblocking(False)

    def start(self) -> None:
        """Start sending; the connection's write buffer must be empty."""
        self.has_started = True
        if self._socket is None:
            self.pump_buffered()
        else:
            self._loop.add_writer(self._socket.fileno(), self._pump_socket)
            self._pump_socket()

    def hand_over(self) -> BodyReader:
        """Stop here. Returns the rest, which is now the caller's; `sent` bytes were sent."""
        rest, self._pieces = self._pieces, BodyReader(())
        self._stop()
        return rest

    @property
    def progress(self) -> int:
        """Bytes that the client has acknowledged."""
        if self._socket is not None:
            return self.sent - unsent(self._socket.fileno())
        descriptor = self._transport.get_extra_info("socket").fileno()
        return self.sent - self._transport.get_write_buffer_size() - unsent(descriptor)

    def close(self) -> None:
        if self._pieces.file < 0:
            return
        self._pieces.close()
        self._stop()

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def pump_buffered(self) -> None:
        """Under TLS: fill the transport's buffer up to its high-water mark. Called again when it has drained."""
        high = self._transport.get_write_buffer_limits()[1]  # above it the transport calls pause_writing
        self._handle = None
        if self._pieces.file < 0 or self._socket is not None:
            return
        try:
            if not self._pieces.left:
                self._finish(complete=True)
                return
            if self._transport.get_write_buffer_size() > high:
                self.waited = True
                return
            piece = self._pieces.take(TURN_BYTES)
            self._transport.write(piece)
            self.sent += len(piece)
        except (ChangedWhileSending, OSError):
            self._finish(complete=False)
            return
        self._handle = self._loop.call_soon(self.pump_buffered)

    def _pump_socket(self) -> None:
        left = TURN_BYTES
        try:
            while self._pieces.left and left > 0:
                size = self._send_some()
                left -= size
                self.sent += size
        except (BlockingIOError, InterruptedError):
            self.waited = True
            return
        except (ChangedWhileSending, OSError):
            self._finish(complete=False)
            return
        if not self._pieces.left:
            self._finish(complete=True)

    def _send_some(self) -> int:
        assert self._socket is not None
        pieces = self._pieces
        span = pieces.span
        if span is not None and pieces.left_on_disk > TAIL_BYTES:
            most = min(span.length, pieces.left_on_disk - TAIL_BYTES, TURN_BYTES)
            size = os.sendfile(self._socket.fileno(), pieces.file, span.offset, most)
            pieces.skip(size)
            return size
        piece = pieces.take(TURN_BYTES)
        size = 0
        try:
            more = socket.MSG_MORE if pieces.left and hasattr(socket, "MSG_MORE") else 0
            size = self._socket.send(piece, more)
        finally:
            if size < len(piece):
                pieces.put_back(piece[size:])
        return size

    def _finish(self, *, complete: bool) -> None:
        self.close()
        self._done(complete)


def unsent(descriptor: int) -> int:
    """Bytes in the kernel's send queue that the client has not acknowledged (TIOCOUTQ).

    Without them a slow client would look stalled: the kernel reports a socket as writable only when a third of its
    buffer is free.
    """
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0
