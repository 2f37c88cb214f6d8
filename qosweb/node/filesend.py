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
from collections import deque
from collections.abc import Callable

from qosweb.node.answers import FileSpan, Segment

TURN_BYTES = 1 << 20  # at most this much before others get their turn
PIECE_BYTES = 64 << 10  # of what is copied
TAIL_BYTES = 8 << 20  # what is copied at the end: twice the largest send buffer of an ordinary Linux


class ChangedWhileSending(Exception):
    """The file was overwritten in place."""


class FileSend:
    """One answer from disk on its way. Calls ``done(complete)`` exactly once unless closed before."""

    __slots__ = (
        "_done",
        "_file",
        "_handle",
        "_left_on_disk",
        "_loop",
        "_segments",
        "_socket",
        "_transport",
        "_version",
        "has_started",
        "sent",
        "size",
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
        self._loop = loop
        self._transport = transport
        self._file = file
        self.size = sum(len(part) if isinstance(part, bytes) else part.length for part in segments)
        self._segments = deque(segments)
        self._left_on_disk = sum(part.length for part in segments if isinstance(part, FileSpan))
        self._done = done
        self._handle: asyncio.Handle | None = None
        self._socket: socket.socket | None = None
        # Of the answer's making, not of now: the head already says which version follows.
        self._version = next(
            (part.identity.size, part.identity.mtime_ns) for part in segments if isinstance(part, FileSpan)
        )
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
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        if self._handle is not None:
            self._handle.cancel()
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def pump_buffered(self) -> None:
        """Under TLS: fill the transport's buffer until it asks to pause. Called again when it has drained."""
        high = self._transport.get_write_buffer_limits()[1]  # beyond it the transport has asked to pause
        self._handle = None
        if self._file < 0 or self._socket is not None:
            return
        try:
            for _ in range(TURN_BYTES // PIECE_BYTES):
                if not self._segments:
                    self._finish(complete=True)
                    return
                if self._transport.get_write_buffer_size() > high:
                    return
                piece = self._take_piece()
                self._transport.write(piece)
                self.sent += len(piece)
        except (ChangedWhileSending, OSError):
            self._finish(complete=False)
            return
        self._handle = self._loop.call_soon(self.pump_buffered)

    def _pump_socket(self) -> None:
        left = TURN_BYTES
        try:
            while self._segments and left > 0:
                size = self._send_some()
                left -= size
                self.sent += size
        except (BlockingIOError, InterruptedError):
            return
        except (ChangedWhileSending, OSError):
            self._finish(complete=False)
            return
        if not self._segments:
            self._finish(complete=True)

    def _send_some(self) -> int:
        assert self._socket is not None
        segment = self._segments[0]
        if isinstance(segment, FileSpan) and self._left_on_disk > TAIL_BYTES:
            most = min(segment.length, self._left_on_disk - TAIL_BYTES, TURN_BYTES)
            size = os.sendfile(self._socket.fileno(), self._file, segment.offset, most)
            if size == 0:
                raise ChangedWhileSending
            self._advance(segment, size)
            return size
        piece = self._take_piece()
        size = 0
        try:
            more = socket.MSG_MORE if self._segments and hasattr(socket, "MSG_MORE") else 0
            size = self._socket.send(piece, more)
        finally:
            if size < len(piece):
                self._segments.appendleft(piece[size:])
        return size

    def _take_piece(self) -> bytes:
        """The next bytes, out of the queue. The very last ones only if the file is the version it was."""
        segment = self._segments[0]
        if isinstance(segment, bytes):
            self._segments.popleft()
            return segment
        piece = os.pread(self._file, min(segment.length, PIECE_BYTES), segment.offset)
        if not piece:
            raise ChangedWhileSending
        self._advance(segment, len(piece))
        if not self._left_on_disk and _version(self._file) != self._version:
            raise ChangedWhileSending
        return piece

    def _advance(self, span: FileSpan, size: int) -> None:
        self._segments.popleft()
        self._left_on_disk -= size
        if size < span.length:
            rest = FileSpan(span.name, span.identity, span.offset + size, span.length - size)
            self._segments.appendleft(rest)

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


def _version(descriptor: int) -> tuple[int, int]:
    """What changes when the content does. Not ctime: that changes too when the name is given to another file."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns
