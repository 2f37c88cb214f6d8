"""Request heads out of the byte stream of one connection, one at a time, within the limits.

The work is done by aiohttp's C parser, which gets exactly one head, whole or in the pieces in which it arrived, and
nothing beyond it: so an error belongs to the head it is in, and what follows a head is not looked at before that is
answered. Where the parser is more lenient than RFC 9112 section 3, the request line is checked again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from aiohttp.http import HttpProcessingError, HttpRequestParser
from aiohttp.streams import EMPTY_PAYLOAD

from qosweb.server.connection.malformed import (
    as_http_1_1,
    bad_request_line,
    diagnose,
    is_request_line,
    is_unknown_version,
)
from qosweb.server.request.answers import Answer, explain

if TYPE_CHECKING:
    import asyncio

    from aiohttp.base_protocol import BaseProtocol
    from aiohttp.http import RawRequestMessage
    from aiohttp.streams import StreamReader

END_OF_HEAD = b"\r\n\r\n"

_BODY_BUFFER = 64 << 10  # what the parser would hold of a body; none is ever read


class HeadLimits(NamedTuple):
    request_line: int
    size: int
    fields: int


class RejectedHead(Exception):
    """What arrived is no acceptable head; the connection ends with ``answer``."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class RequestHead(NamedTuple):
    message: RawRequestMessage
    has_body: bool
    came_whole: bool


class HeadParser:
    __slots__ = ("_limits", "_line", "_new_parser", "_parser", "_tail", "partial_len", "partial_since")

    def __init__(self, limits: HeadLimits, loop: asyncio.AbstractEventLoop, body_flow: BaseProtocol) -> None:
        self.partial_len = 0  # bytes of an incomplete head that the parser has
        self.partial_since = 0.0
        self._limits = limits
        self._line = b""  # of an incomplete head: the request line and perhaps more
        self._tail = b""  # its last three bytes
        beyond = limits.size + 1  # the size limits are ours; the parser's own are set where they cannot bite
        self._new_parser = partial(
            HttpRequestParser,
            body_flow,
            loop,
            _BODY_BUFFER,
            max_line_size=beyond,
            max_field_size=beyond,
            max_headers=limits.fields,
        )
        self._parser = self._new_parser()

    def end_of_head(self, data: bytes, start: int) -> int:
        """Where the head ends that begins, or goes on, at ``start``; the end of the data if it does not end there."""
        if self.partial_len:
            across = (self._tail + data[start : start + 3]).find(END_OF_HEAD)
            if across >= 0:
                return start + across + len(END_OF_HEAD) - len(self._tail)
        end = data.find(END_OF_HEAD, start)
        return len(data) if end < 0 else end + len(END_OF_HEAD)

    def read(self, piece: bytes, now: float) -> RequestHead | None:
        """The head that ``piece`` completes; None if there must come more. Raises Refused."""
        came_whole = not self.partial_len
        if not came_whole or len(piece) > self._limits.request_line:
            self._check_size(piece)
        try:
            messages = self._parser.feed_data(piece)[0]
        except HttpProcessingError as error:
            messages = self._read_later_minor(error, piece)
        if not messages:
            self._keep_partial(piece, now)
            return None
        message, payload = messages[0]
        if not is_request_line(piece if came_whole else self._line + piece):
            raise self._refused(bad_request_line(message.version), piece)
        self.partial_len = 0
        return RequestHead(message, payload is not EMPTY_PAYLOAD or bool(message.chunked), came_whole)

    def _read_later_minor(
        self, error: HttpProcessingError, piece: bytes
    ) -> list[tuple[RawRequestMessage, StreamReader]]:
        """What the head gives if its version is HTTP/1.2 or later, which the parser rejects. Raises RejectedHead."""
        begun = self._line + piece if self.partial_len else piece
        known = as_http_1_1(begun) if is_unknown_version(error) else None
        if known is None:
            raise self._refused(diagnose(error, piece), piece) from None
        self._parser = self._new_parser()
        try:
            return self._parser.feed_data(known)[0]
        except HttpProcessingError as another:
            raise self._refused(diagnose(another, known), piece) from None

    def too_late(self) -> RejectedHead:
        """The head that has begun did not come to its end in time."""
        return self._refused(explain(408, "The request head did not arrive in time."), b"")

    def _check_size(self, piece: bytes) -> None:
        total = self.partial_len + len(piece)
        in_request_line = not self.partial_len or b"\n" not in self._line.lstrip(b"\r\n")
        if total > self._limits.request_line and in_request_line:
            line_end = piece.find(b"\n")
            line_len = self.partial_len + (len(piece) if line_end < 0 else line_end)
            if line_len > self._limits.request_line:
                reason = f"The request line is longer than {self._limits.request_line} bytes."
                raise self._refused(explain(414, reason), piece)
        if total > self._limits.size:
            raise self._refused(explain(431, f"The request head is larger than {self._limits.size} bytes."), piece)

    def _keep_partial(self, piece: bytes, now: float) -> None:
        if not self.partial_len:
            self.partial_since = now
            self._line = self._tail = b""
        if b"\n" not in self._line.lstrip(b"\r\n"):
            self._line += piece
        self.partial_len += len(piece)
        self._tail = (self._tail + piece)[-3:]

    def _refused(self, answer: Answer, piece: bytes) -> RejectedHead:
        begun = self._line + piece if self.partial_len else piece
        return RejectedHead(answer.without_body() if begun.lstrip(b"\r\n").startswith(b"HEAD ") else answer)
