"""HTTP/1 response parser for one connection: parses heads strictly, counts and discards bodies. Pure.

One request is in flight at a time, so one response is read at a time. Heads repeat (within a second, a server's heads
for a page are identical), so parsed heads are cached, up to a limit. If RFC 9112 leaves doubt about where a response
ends, the parser rejects the response: a load generator that guesses counts wrongly.
"""

from __future__ import annotations

import re

import msgspec

from qosweb.http.bodies import BadBody, ChunkedBody

HEAD_LEN_MAX = 64 << 10
INTERIM_MAX = 10  # 1xx responses before the final one
_REMEMBERED_MAX = 512

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n\x00]*)?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*")

UNTIL_CLOSE, SIZED, CHUNKED = 0, 1, 2


class BadResponse(Exception):
    """The received data is not a valid response; the text says why."""


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """The relevant parts of a response head."""

    status: int
    framing: int
    length: int
    keeps_alive: bool
    qos_class: str = ""
    qos_decision: str = ""
    location: str = ""


def parse_head(head: bytes) -> ResponseHead:
    """``head`` is everything before the empty line."""
    first, *lines = head.split(b"\r\n")
    status_line = _STATUS_LINE.fullmatch(first)
    if status_line is None:
        raise BadResponse(f"not an HTTP response: it begins with {_shown(first)}")
    fields: dict[bytes, bytes] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise BadResponse(f"not a header field: {_shown(line)}")
        name = field[1].lower()
        fields[name] = fields[name] + b"," + field[2] if name in fields else field[2]
    connection = fields.get(b"connection", b"").lower()
    options = {option.strip() for option in connection.split(b",")}
    keeps_alive = b"close" not in options and (status_line[1] == b"1" or b"keep-alive" in options)
    framing, length = _framing_of(fields)
    return ResponseHead(
        int(status_line[2]),
        framing,
        length,
        keeps_alive,
        _text(fields.get(b"qos-class", b"")),
        _text(fields.get(b"qos-decision", b"")),
        fields.get(b"location", b"")[:HEAD_LEN_MAX].decode("latin-1"),
    )


def _framing_of(fields: dict[bytes, bytes]) -> tuple[int, int]:
    coding, size = fields.get(b"transfer-encoding"), fields.get(b"content-length")
    if coding is not None:
        if size is not None:
            raise BadResponse("Content-Length and Transfer-Encoding in one response")
        if coding.lower() != b"chunked":
            raise BadResponse(f"Transfer-Encoding {_shown(coding)} is not supported")
        return CHUNKED, 0
    if size is None:
        return UNTIL_CLOSE, 0
    sizes = {part.strip() for part in size.split(b",")}
    if len(sizes) != 1 or not (digits := sizes.pop()).isdigit() or len(digits) > 18:
        raise BadResponse(f"Content-Length {_shown(size)} is not a size")
    return SIZED, int(digits)


def _shown(data: bytes) -> str:
    return repr(data[:60])[1:] + ("..." if len(data) > 60 else "")


def _text(value: bytes) -> str:
    text = value[:200].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)


class HeadCache:
    """Cache of parsed heads, shared by the connections of one process."""

    def __init__(self) -> None:
        self._heads: dict[bytes, ResponseHead] = {}

    def read(self, head: bytes) -> ResponseHead:
        known = self._heads.get(head)
        if known is None:
            known = parse_head(head)
            if len(head) <= 2048:
                if len(self._heads) >= _REMEMBERED_MAX:
                    self._heads.clear()
                self._heads[head] = known
        return known


class ResponseReader:
    """Reads one response after the other: ``begin``, ``feed`` until it returns True, ``begin`` ..."""

    __slots__ = ("_body_max", "_buffer", "_chunks", "_interim", "_left", "_no_body", "_remembered", "body", "head",
                 "started", "surplus")  # fmt: skip

    def __init__(self, remembered: HeadCache, body_max: int) -> None:
        self._remembered = remembered
        self._body_max = body_max
        self._buffer = b""
        self.begin(no_body=False)

    def begin(self, *, no_body: bool) -> None:
        """A new request was sent; ``no_body`` for HEAD, whose responses never have a body."""
        self._no_body = no_body
        self._interim = 0
        self._left = 0
        self._chunks: ChunkedBody | None = None
        self.head: ResponseHead | None = None
        self.body = 0  # bytes of the body so far
        self.started = False  # whether any data came
        self.surplus = False  # whether data followed the response

    def feed(self, data: bytes) -> bool:
        """Returns whether the response is complete. Raises BadResponse."""
        self.started = True
        if self.head is not None:
            return self._feed_body(data, 0)
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return self._wait_for_head(data)
        if end > HEAD_LEN_MAX:
            raise BadResponse(f"a head of more than {HEAD_LEN_MAX} bytes")
        head = self._remembered.read(data[:end])
        status = head.status
        if status < 200:
            return self._skip_interim(head, data[end + 4 :])
        self.head = head
        if self._no_body or status == 204 or status == 304:
            self.surplus = len(data) > end + 4
            return True
        if head.framing == SIZED:
            length = head.length
            if length > self._body_max:
                raise BadResponse(f"a response of {length} bytes, more than --body-max ({self._body_max})")
            self._left = length
        elif head.framing == CHUNKED:
            self._chunks = ChunkedBody()
        return self._feed_body(data, end + 4)

    def feed_end(self) -> bool:
        """The server closed the connection. Returns whether that completes the response."""
        return self.head is not None and self.head.framing == UNTIL_CLOSE and not self._no_body

    def _feed_body(self, data: bytes, start: int) -> bool:
        size = len(data) - start
        head = self.head
        assert head is not None
        if head.framing == SIZED:
            left = self._left
            if size < left:
                self._left = left - size
                self.body += size
                return False
            self.body += left
            self.surplus = size > left
            return True
        if self._chunks is not None:
            try:
                content, rest = self._chunks.feed(data[start:])
            except BadBody as bad:
                raise BadResponse(str(bad)) from None
            self.body += len(content)
            complete = self._chunks.is_complete
            self.surplus = bool(rest)
        else:
            complete = False
            self.body += size
        if self.body > self._body_max:
            raise BadResponse(f"a response of more than --body-max ({self._body_max} bytes)")
        return complete

    def _wait_for_head(self, data: bytes) -> bool:
        if not data.startswith(b"HTTP/1."[: len(data)]):
            raise BadResponse(f"not an HTTP response: it begins with {_shown(data)}")
        if len(data) > HEAD_LEN_MAX:
            raise BadResponse(f"a head of more than {HEAD_LEN_MAX} bytes")
        self._buffer = data
        return False

    def _skip_interim(self, head: ResponseHead, rest: bytes) -> bool:
        self._interim += 1
        if head.status == 101 or self._interim > INTERIM_MAX:
            raise BadResponse(f"unexpected status {head.status}")
        return self.feed(rest) if rest else False
