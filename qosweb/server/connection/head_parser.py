"""HTTP/1.1 head parser: extracts one request head at a time from a connection's bytes, within size limits.

aiohttp's C parser does the work. It gets exactly one head, complete or in the pieces in which it arrived, and nothing
after it. So an error belongs to the head that contains it, and the bytes after a head stay unparsed until its response
is sent. Where the parser is more lenient than RFC 9112 section 3, the request line is checked again.
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

_BODY_BUFFER = 64 << 10  # the parser requires a limit for bodies, but never gets one


class HeadLimits(NamedTuple):
    request_line: int
    size: int
    fields: int


class RejectedHead(Exception):
    """The bytes are not an acceptable head. The connection closes after the response ``answer``."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class RequestHead(NamedTuple):
    message: RawRequestMessage
    has_body: bool
    is_single_piece: bool


class HeadParser:
    __slots__ = ("_limits", "_line", "_new_parser", "_parser", "_tail", "partial_len", "partial_since")

    def __init__(self, limits: HeadLimits, loop: asyncio.AbstractEventLoop, body_flow: BaseProtocol) -> None:
        self.partial_len = 0  # bytes of an incomplete head in the parser
        self.partial_since = 0.0
        self._limits = limits
        self._line = b""  # of an incomplete head: at least its request line
        self._tail = b""  # of an incomplete head: its last three bytes
        beyond = limits.size + 1  # this class checks sizes; the parser's own limits must never apply
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
        """The end of the head that begins or continues at ``start``; the length of the data if it is incomplete."""
        if self.partial_len:
            across = (self._tail + data[start : start + 3]).find(END_OF_HEAD)
            if across >= 0:
                return start + across + len(END_OF_HEAD) - len(self._tail)
        end = data.find(END_OF_HEAD, start)
        return len(data) if end < 0 else end + len(END_OF_HEAD)

    def read(self, piece: bytes, now: float) -> RequestHead | None:
        """The head that ``piece`` completes; None if it is still incomplete. Raises RejectedHead."""
        is_single_piece = not self.partial_len
        if not is_single_piece or len(piece) > self._limits.request_line:
            self._check_size(piece)
        try:
            messages = self._parser.feed_data(piece)[0]
        except HttpProcessingError as error:
            messages = self._read_later_minor(error, piece)
        if not messages:
            self._keep_partial(piece, now)
            return None
        message, payload = messages[0]
        if not is_request_line(piece if is_single_piece else self._line + piece):
            raise self._rejected(bad_request_line(message.version), piece)
        self.partial_len = 0
        return RequestHead(message, payload is not EMPTY_PAYLOAD or bool(message.chunked), is_single_piece)

    def _read_later_minor(
        self, error: HttpProcessingError, piece: bytes
    ) -> list[tuple[RawRequestMessage, StreamReader]]:
        """What the head gives if its version is HTTP/1.2 or later, which the parser rejects. Raises RejectedHead."""
        begun = self._line + piece if self.partial_len else piece
        known = as_http_1_1(begun) if is_unknown_version(error) else None
        if known is None:
            raise self._rejected(diagnose(error, piece), piece) from None
        self._parser = self._new_parser()
        try:
            return self._parser.feed_data(known)[0]
        except HttpProcessingError as another:
            raise self._rejected(diagnose(another, known), piece) from None

    def too_late(self) -> RejectedHead:
        """The rejection of a head that was not complete in time."""
        return self._rejected(explain(408, "The request head did not arrive in time."), b"")

    def _check_size(self, piece: bytes) -> None:
        total = self.partial_len + len(piece)
        in_request_line = not self.partial_len or b"\n" not in self._line.lstrip(b"\r\n")
        if total > self._limits.request_line and in_request_line:
            line_end = piece.find(b"\n")
            line_len = self.partial_len + (len(piece) if line_end < 0 else line_end)
            if line_len > self._limits.request_line:
                reason = f"The request line is longer than {self._limits.request_line} bytes."
                raise self._rejected(explain(414, reason), piece)
        if total > self._limits.size:
            raise self._rejected(explain(431, f"The request head is larger than {self._limits.size} bytes."), piece)

    def _keep_partial(self, piece: bytes, now: float) -> None:
        if not self.partial_len:
            self.partial_since = now
            self._line = self._tail = b""
        if b"\n" not in self._line.lstrip(b"\r\n"):
            self._line += piece
        self.partial_len += len(piece)
        self._tail = (self._tail + piece)[-3:]

    def _rejected(self, answer: Answer, piece: bytes) -> RejectedHead:
        begun = self._line + piece if self.partial_len else piece
        return RejectedHead(answer.without_body() if begun.lstrip(b"\r\n").startswith(b"HEAD ") else answer)
