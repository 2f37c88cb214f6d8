"""Sending parts of a file from disk: by sendfile and, at the end and under TLS, by reading and writing.

No task and no thread: the sender runs when the socket can take more, a bounded amount each time. A file that is
replaced meanwhile (by rename) goes on being sent as the version that was opened. A file that is overwritten in
place is noticed: before the last piece is released the version is compared, and if it changed the connection is
broken off, so that the client sees an incomplete body and never a complete mixture.

What sendfile puts in a socket buffer is no copy: it changes with the file until the other side has it. So the last
bytes, more than a socket buffer holds, are copied; when they are compared, the buffer holds nothing else. (Within
one machine such bytes go on to the reader's own buffer; a reader there that lags by more than TAIL_BYTES may still
see some change.)

The event loop owns the connection's descriptor and lets nobody else wait on it, so a duplicate is used; it is
used only while the loop's own write buffer is empty. When no descriptor is left for a duplicate, a plain socket
is written to as one under TLS is.
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

TURN_BYTES = 1 << 20  # at most this much before others get their turn
PIECE_BYTES = 64 << 10  # of what is copied
TAIL_BYTES = 8 << 20  # what is copied at the end: twice the largest send buffer of an ordinary Linux


class FileSender:
    """One answer from disk on its way. Calls ``done(complete)`` exactly once unless closed before."""

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
        """Takes over the open descriptor ``file``. ``segments`` begin with the head of the answer."""
        self.sent = 0
        self.has_started = False
        self.waited = False  # for the client to take what was sent
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
        """The connection's write buffer is empty: begin."""
        self.has_started = True
        if self._socket is None:
            self.pump_buffered()
        else:
            self._loop.add_writer(self._socket.fileno(), self._pump_socket)
            self._pump_socket()

    @property
    def progress(self) -> int:
        """Bytes that left for the client."""
        if self._socket is not None:
            return self.sent - unsent(self._socket.fileno())
        descriptor = self._transport.get_extra_info("socket").fileno()
        return self.sent - self._transport.get_write_buffer_size() - unsent(descriptor)

    def close(self) -> None:
        if self._pieces.file < 0:
            return
        self._pieces.close()
        if self._handle is not None:
            self._handle.cancel()
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def pump_buffered(self) -> None:
        """Under TLS: fill the transport's buffer until it asks to pause. Called again when it has drained."""
        high = self._transport.get_write_buffer_limits()[1]  # beyond it the transport has asked to pause
        self._handle = None
        if self._pieces.file < 0 or self._socket is not None:
            return
        try:
            for _ in range(TURN_BYTES // PIECE_BYTES):
                if not self._pieces.left:
                    self._finish(complete=True)
                    return
                if self._transport.get_write_buffer_size() > high:
                    self.waited = True
                    return
                piece = self._pieces.take(PIECE_BYTES)
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
        piece = pieces.take(PIECE_BYTES)
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
    """Bytes in the kernel that the client has not taken yet.

    Without them a slow reader looks like none: the kernel tells us of room only when a third of its buffer is free.
    """
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0
