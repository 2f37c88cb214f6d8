"""The bytes of an answer in the order in which they leave: parts in memory, and spans of one open file.

They are taken piece by piece, however large the senders (``qosweb.server.files.file_sender``,
``qosweb.server.files.pacing``) want them. What is taken is a copy. Before the last piece from the file is handed out,
the file's version is compared with the one that the answer was made for: a client gets an incomplete body or one
version, never a complete mixture.
"""

import os
from collections import deque

from qosweb.server.request.answers import FileSpan, Segment

Piece = bytes | memoryview


class ChangedWhileSending(Exception):
    """The file was overwritten in place."""


class BodyReader:
    """Takes over the open descriptor ``file``; -1: everything is in memory."""

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
                # Of the answer's making, not of now: the head already says which version follows.
                self._version = part.identity.size, part.identity.mtime_ns
                self._segments.append(part)
            elif part:
                self.left += len(part)
                self._segments.append(memoryview(part))  # so that cutting it copies nothing

    def take(self, most: int) -> Piece:
        """The next bytes: at least one, at most ``most``, out of one segment. Raises ChangedWhileSending, OSError."""
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
        """What was taken and not sent."""
        self._segments.appendleft(memoryview(piece))
        self.left += len(piece)

    @property
    def span(self) -> FileSpan | None:
        """What comes next, if that is from the file."""
        segment = self._segments[0]
        return segment if isinstance(segment, FileSpan) else None

    def skip(self, size: int) -> None:
        """``size`` bytes of the span that comes next have gone out."""
        span = self.span
        assert span is not None
        if size == 0:
            raise ChangedWhileSending  # it is shorter than it was
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
    """What changes when the content does. Not ctime: that changes too when the name is given to another file."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns
