"""Body reader: reads a response in pieces from memory and from one open file, and detects changes of the file.

The senders (``qosweb.server.files.file_sender``, ``qosweb.server.pacing.paced_send``) choose the size of each piece. A
piece from the file is a copy. Before the last piece from the file is returned, the file's version is compared with the
one that the response was made for. So a client gets one version or an incomplete body, never a complete mixture.
"""

import os
from collections import deque

from qosweb.server.request.answers import FileSpan, Segment

Piece = bytes | memoryview


class ChangedWhileSending(Exception):
    """The file was overwritten in place."""


class BodyReader:
    """Owns the open descriptor ``file``; -1 if all segments are in memory."""

    __slots__ = ("_segments", "_version", "file", "left", "left_on_disk")

    def __init__(self, segments: tuple[Segment, ...], file: int = -1) -> None:
        self.file = file
        self._segments: deque[memoryview | FileSpan] = deque()
        self.left_on_disk = 0
        self.left = 0
        self._version: tuple[int, int] | None = None
        for part in segments:
            if isinstance(part, FileSpan):
                self.left_on_disk += part.length
                self.left += part.length
                # The version that the response was made for: its head already names that version.
                self._version = part.identity.size, part.identity.mtime_ns
                self._segments.append(part)
            elif part:
                self.left += len(part)
                self._segments.append(memoryview(part))  # slices of it are not copies

    def take(self, most: int) -> Piece:
        """The next 1 to ``most`` bytes, from one segment. Raises ChangedWhileSending, OSError."""
        segment = self._segments[0]
        if isinstance(segment, memoryview):
            self._segments.popleft()
            if len(segment) > most:
                self._segments.appendleft(segment[most:])
                segment = segment[:most]
            self.left -= len(segment)
            return segment
        piece = os.pread(self.file, min(segment.length, most), segment.offset)
        self.skip(len(piece))
        if not self.left_on_disk and _version(self.file) != self._version:
            raise ChangedWhileSending
        return piece

    def put_back(self, piece: Piece) -> None:
        """Return bytes that were taken and not sent."""
        self._segments.appendleft(memoryview(piece))
        self.left += len(piece)

    @property
    def span(self) -> FileSpan | None:
        """The next segment if it is from the file; else None."""
        segment = self._segments[0]
        return segment if isinstance(segment, FileSpan) else None

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes of the next segment, which is from the file: they were sent."""
        span = self.span
        assert span is not None
        if size == 0:
            raise ChangedWhileSending  # the file has become shorter
        self._segments.popleft()
        self.left -= size
        self.left_on_disk -= size
        if size < span.length:
            rest = FileSpan(span.name, span.identity, span.offset + size, span.length - size)
            self._segments.appendleft(rest)

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def _version(descriptor: int) -> tuple[int, int]:
    """Size and mtime, which change with the content. Not ctime: it also changes when the file loses its name."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns
