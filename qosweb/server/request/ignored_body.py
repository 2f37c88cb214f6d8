"""Discards the body of a request whose method has no use for one (HEAD, OPTIONS), up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.http.bodies import BadBody, Body, ChunkedBody, SizedBody
from qosweb.server.request.answers import Answer, explain

if TYPE_CHECKING:
    from qosweb.http.request_heads import RequestHead

IGNORED_MAX = 16 << 10  # bytes on the wire


class IgnoredBody:
    """Reads a body of at most IGNORED_MAX bytes. ``refusal`` is the answer to one that is malformed or larger."""

    __slots__ = ("_body", "_read", "refusal")

    def __init__(self, head: RequestHead) -> None:
        self._body: Body = ChunkedBody() if head.is_chunked else SizedBody(head.length)
        self._read = 0
        self.refusal: Answer | None = None
        too_long = head.length > IGNORED_MAX
        if too_long or (head.is_chunked and not head.is_http_1_1):  # RFC 9112 section 6.1
            self._refuse_size()

    @property
    def is_over(self) -> bool:
        """Nothing more of it is to be read."""
        return self.refusal is not None or self._body.is_complete

    def feed(self, data: bytes) -> bytes:
        """Read received bytes. Returns the bytes after the body."""
        try:
            _, rest = self._body.feed(data)
        except BadBody as bad:
            self.refusal = explain(400, f"The body is malformed: {bad}.", must_close=True)
            return b""
        self._read += len(data) - len(rest)
        if self._read > IGNORED_MAX:
            self._refuse_size()
        return rest

    def _refuse_size(self) -> None:
        self.refusal = explain(413, f"A body that is ignored has at most {IGNORED_MAX} bytes.", must_close=True)
