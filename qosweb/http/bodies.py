"""Parsers for message bodies, by Content-Length or chunked (RFC 9112 sections 6 and 7.1). Pure.

The chunked parser is strict: a size has one to sixteen hexadecimal digits, lines end with CR LF, extensions and
trailers are skipped within limits. A parser that is more lenient than its neighbour enables request smuggling.
A forwarded body is framed anew from the parsed content.
"""

from __future__ import annotations

import re

LINE_MAX = 1024  # chunk size with extensions
TRAILERS_MAX = 16 << 10

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"'
_EXTENSION = rb"[ \t]*;[ \t]*%b(?:[ \t]*=[ \t]*(?:%b|%b))?" % (_TOKEN, _TOKEN, _QUOTED)
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:%b)*" % _EXTENSION)
_TRAILER = re.compile(_TOKEN + rb":[\t\x20-\x7e\x80-\xff]*")


class BadBody(Exception):
    """The framing of the body is invalid."""


class SizedBody:
    """A body of ``length`` bytes."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def is_complete(self) -> bool:
        return self._left == 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Split ``data`` into body and the bytes after the body."""
        taken = data[: self._left]
        self._left -= len(taken)
        return taken, data[len(taken) :]


class ChunkedBody:
    """A chunked body. Trailers are parsed and dropped."""

    __slots__ = ("_held", "_in_trailers", "_left", "_trailers_len", "is_complete")

    def __init__(self) -> None:
        self.is_complete = False
        self._held = b""  # incomplete line
        self._left = 0  # rest of the current chunk, including its CR LF
        self._in_trailers = False
        self._trailers_len = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Split ``data`` into decoded body and the bytes after the body. Raises BadBody."""
        data = self._held + data
        self._held = b""
        parts: list[bytes] = []
        at = 0
        while at < len(data) and not self.is_complete:
            if self._left > 2:
                part = data[at : at + self._left - 2]
                parts.append(part)
                self._left -= len(part)
                at += len(part)
            elif self._left:
                end = data[at : at + self._left]
                if not b"\r\n".endswith(end) if self._left == 1 else not b"\r\n".startswith(end):
                    raise BadBody("a chunk is longer than its size says")
                self._left -= len(end)
                at += len(end)
            else:
                line_end = data.find(b"\n", at)
                if line_end < 0:
                    self._held = data[at:]
                    self._check_length(len(self._held))
                    return b"".join(parts), b""
                self._line(data[at : line_end + 1])
                at = line_end + 1
        return b"".join(parts), data[at:]

    def _line(self, line: bytes) -> None:
        self._check_length(len(line))
        if not line.endswith(b"\r\n"):
            raise BadBody("a line of the chunked body does not end with CR LF")
        line = line[:-2]
        if self._in_trailers:
            self._trailers_len += len(line)
            if not line:
                self.is_complete = True
            elif not _TRAILER.fullmatch(line):
                raise BadBody("a trailer is not a valid field")
            return
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            raise BadBody("the size of a chunk is not a hexadecimal number, or its extensions are malformed")
        size = int(found[1], 16)
        if size:
            self._left = size + 2
        else:
            self._in_trailers = True

    def _check_length(self, length: int) -> None:
        if self._in_trailers:
            if self._trailers_len + length > TRAILERS_MAX:
                raise BadBody(f"the trailers are larger than {TRAILERS_MAX} bytes")
        elif length > LINE_MAX:
            raise BadBody(f"the size of a chunk, with its extensions, is longer than {LINE_MAX} bytes")


Body = SizedBody | ChunkedBody
