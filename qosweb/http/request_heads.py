"""Parser for request heads: request line, field lines, framing. Pure.

From: RFC 9112 sections 2 to 6, RFC 9110 sections 5 to 9.
Strict, as every disagreement about a request enables smuggling: lines end with CR LF, the request line has single
spaces, a name is a token, there is at most one Host, Content-Length and Transfer-Encoding, and never both of the last
two. A later minor version of HTTP/1 is read as HTTP/1.1 (RFC 9110 section 2.5).

Heads of clients differ from each other, but most of their lines do not: a head is split into lines, and each line is
looked up in a cache of validated lines (`qosweb.http.field_lines`). A field is decoded only if somebody asks for it.
Departs: only the methods of METHODS are known; other tokens are refused, as is a second line of a field that has a
single value.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from qosweb.http.field_lines import FIELD_LINE, TOKEN, KnownLines
from qosweb.http.forwarded import is_about_client
from qosweb.http.hop_by_hop import DROPPED, REWRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterator

METHODS = frozenset(
    {
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "QUERY",
        "COPY", "LOCK", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "SEARCH", "UNLOCK", "BIND", "REBIND", "UNBIND", "ACL",
        "REPORT", "MKACTIVITY", "CHECKOUT", "MERGE", "M-SEARCH", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "PURGE",
        "MKCALENDAR", "LINK", "UNLINK", "SOURCE",
    }
)  # fmt: skip
LENGTH_MAX = (1 << 64) - 1
NAMES_MAX = 1024  # names whose meaning is kept

_REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
_ABSOLUTE_FORM = re.compile(rb"https?://[0-9A-Za-z._~%!$&'()*+,;=:@\[\]-]+(?:[/?][\x21-\x7e]*)?", re.IGNORECASE)
_UNKNOWN_METHOD = re.compile(rb"(" + TOKEN + rb") [/*hH]")
_METHOD_LEN_MAX = 40
_SLASH = ord("/")
_NO_VERSION = re.compile(rb"" + TOKEN + rb" /[\x21-\x7e]*")
_BEGUN_REQUEST_LINE = re.compile(rb"(?:" + TOKEN + rb"(?: [^\x00-\x1f\x7f]*)?)?\r?")
_BEGUN_FIELD_LINE = re.compile(rb"(?:" + TOKEN + rb"(?::[\t\x20-\x7e\x80-\xff]*)?)?\r?")
_PERSISTENCE = re.compile(rb"(?i:keep-alive|close)?")
_LENGTH = re.compile(rb"[0-9]{1,20}")
_CODINGS = re.compile(rb"(?:(?!(?:chunked|identity)[ \t]*,)" + TOKEN + rb"[ \t]*,[ \t]*)*chunked", re.IGNORECASE)

# Fields that the server reads, as bits: the bits of a head tell which of them it has.
HOST = 1 << 0
CONTENT_LENGTH = 1 << 1
TRANSFER_ENCODING = 1 << 2
CONNECTION = 1 << 3
UPGRADE = 1 << 4
EXPECT = 1 << 5
CONDITION = 1 << 6  # conditional requests and ranges
ACCEPT_ENCODING = 1 << 7
VIA = 1 << 8
CLIENT_CLAIM = 1 << 9  # says who the client is; see `forwarded`
REQUEST_ID = 1 << 10
MAX_FORWARDS = 1 << 11
NAMED_FIELDS = 1 << 12  # a Connection that names fields of one hop
COOKIE = 1 << 13
FETCH_METADATA = 1 << 14  # Sec-Fetch-Mode and Sec-Fetch-Dest
RELEASE = 1 << 15  # the release of the site that an API client has seen
_SINGLE_VALUES = (b"user-agent", b"content-type", b"content-location", b"content-range", b"etag", b"server")
_BITS = {
    b"host": HOST,
    b"content-length": CONTENT_LENGTH,
    b"transfer-encoding": TRANSFER_ENCODING,
    b"connection": CONNECTION,
    b"upgrade": UPGRADE,
    b"expect": EXPECT,
    b"accept-encoding": ACCEPT_ENCODING,
    b"via": VIA,
    b"x-request-id": REQUEST_ID,
    b"max-forwards": MAX_FORWARDS,
    b"cookie": COOKIE,
    b"sec-fetch-mode": FETCH_METADATA,
    b"sec-fetch-dest": FETCH_METADATA,
    b"qosweb-release": RELEASE,
    **dict.fromkeys(
        (b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since", b"if-range", b"range"), CONDITION
    ),
    **{name: 1 << 16 + at for at, name in enumerate(_SINGLE_VALUES)},
}
_ONCE = HOST | CONTENT_LENGTH | TRANSFER_ENCODING | MAX_FORWARDS | sum(_BITS[name] for name in _SINGLE_VALUES)
_FRAMING = CONTENT_LENGTH | TRANSFER_ENCODING


class BadRequestHead(Exception):
    """The head is not acceptable. ``status`` is that of the response, the text says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class RequestField:
    """A field line. ``wire`` is the line for another server; empty if it does not pass as it came. Immutable."""

    __slots__ = ("bit", "name", "raw_name", "value", "wire")

    def __init__(self, raw_name: bytes, value: bytes) -> None:
        self.raw_name = raw_name
        self.value = value
        self.name, self.bit, passes = _read_name(raw_name)
        self.wire = b"".join((raw_name, b": ", value, b"\r\n")) if passes else b""
        if self.bit == CONNECTION and not _PERSISTENCE.fullmatch(value):
            self.bit |= NAMED_FIELDS

    @property
    def text(self) -> str:
        return self.value.decode("utf-8", "surrogateescape")


@functools.lru_cache(maxsize=NAMES_MAX)
def _read_name(raw_name: bytes) -> tuple[str, int, bool]:
    """The name in lower case, its bit, and whether such a field passes to another server as it came."""
    lower = raw_name.lower()
    name = lower.decode()
    if is_about_client(name):
        return name, CLIENT_CLAIM, False
    return name, _BITS.get(lower, 0), lower not in REWRITTEN and lower.replace(b"_", b"-") not in DROPPED


class _RequestLines(KnownLines[RequestField]):
    __slots__ = ()

    def learn(self, line: bytes) -> RequestField:
        found = FIELD_LINE.fullmatch(line)
        if found is None:
            raise BadRequestHead(400, "a line of its head is not a field")
        field = RequestField(found[1], found[2])
        if field.name == "sec-websocket-key1":
            raise BadRequestHead(400, "it asks for an old version of WebSocket")
        if field.bit & _FRAMING and b"\t" in line:  # some servers take a tab for a part of the value
            raise BadRequestHead(400, "it has a tab in Content-Length or Transfer-Encoding")
        return field


class _RequestLine(NamedTuple):
    method: str
    target: str
    is_http_1_1: bool


class _FirstLines(KnownLines[_RequestLine]):
    """Request lines: most requests are for few pages."""

    __slots__ = ()

    def learn(self, line: bytes) -> _RequestLine:
        return _RequestLine(*read_request_line(line))


class RequestHead:
    """A parsed request head. Immutable but for what it computes on demand."""

    __slots__ = (
        "bits", "fields", "host", "is_chunked", "is_http_1_1", "length", "method", "must_close", "target", "upgrades"
    )  # fmt: skip

    def __init__(
        self, method: str, target: str, fields: list[RequestField], bits: int, host: bytes, *, is_http_1_1: bool
    ) -> None:
        """``bits``: those of the fields, joined. ``host``: the value of its Host field; empty without one."""
        self.host = host
        self.method = method
        self.target = target  # as it was sent
        self.is_http_1_1 = is_http_1_1  # otherwise HTTP/1.0
        self.fields = fields
        self.bits = bits
        self.is_chunked = False
        self.length = 0  # of the body, if it is not chunked
        self.must_close = not is_http_1_1  # the client wants no further response on this connection
        self.upgrades = False  # the client wants another protocol
        if bits & _FRAMING:
            self._read_framing()
        if bits & CONNECTION:
            self._read_connection()

    @property
    def has_body(self) -> bool:
        return self.is_chunked or self.length > 0

    def with_target(self, target: str) -> RequestHead:
        return RequestHead(self.method, target, self.fields, self.bits, self.host, is_http_1_1=self.is_http_1_1)

    def values(self, name: str) -> list[str]:
        """The values of all field lines with this name, in order."""
        lower = name.lower()
        return [field.text for field in self.fields if field.name == lower]

    def value(self, name: str) -> str | None:
        """The value of a field, its lines joined as in RFC 9110 section 5.3; None if it is absent."""
        values = self.values(name)
        return ", ".join(values) if values else None

    def raw(self, bit: int) -> Iterator[bytes]:
        """The values of all fields with this bit, as they were sent."""
        return (field.value for field in self.fields if field.bit & bit)

    def _read_framing(self) -> None:
        if self.bits & _FRAMING == _FRAMING:
            raise BadRequestHead(400, "it has both Content-Length and Transfer-Encoding")
        if self.bits & CONTENT_LENGTH:
            value = next(self.raw(CONTENT_LENGTH))
            if not _LENGTH.fullmatch(value) or int(value) > LENGTH_MAX:
                raise BadRequestHead(400, "its Content-Length is not a number of bytes")
            self.length = int(value)
        elif _CODINGS.fullmatch(next(self.raw(TRANSFER_ENCODING))):
            self.is_chunked = True
        else:
            raise BadRequestHead(400, "the last transfer coding must be chunked, once")

    def _read_connection(self) -> None:
        words = {word.strip(b" \t").lower() for value in self.raw(CONNECTION) for word in value.split(b",")}
        self.must_close = b"close" in words or (self.must_close and b"keep-alive" not in words)
        self.upgrades = bool(self.bits & UPGRADE) and b"upgrade" in words


class RequestHeads:
    """Parses request heads with at most ``fields_max`` fields."""

    __slots__ = ("_fields_max", "_first_lines", "lines")

    def __init__(self, fields_max: int) -> None:
        self._fields_max = fields_max
        self._first_lines = _FirstLines()
        self.lines = _RequestLines()

    def read(self, head: bytes) -> RequestHead:
        """Parse a complete head, with its empty line and without empty lines before it. Raises BadRequestHead."""
        lines = head[:-4].split(b"\r\n")
        method, target, is_http_1_1 = self._first_lines[lines[0]]
        del lines[0]
        if len(lines) > self._fields_max:
            raise BadRequestHead(431, "its head has too many fields")
        fields = list(map(self.lines.__getitem__, lines))
        bits, host = 0, b""
        for field in fields:
            if bit := field.bit:
                if bits & bit & _ONCE:
                    raise BadRequestHead(400, f"it has two fields {field.name}")
                bits |= bit
                if bit == HOST:
                    host = field.value
        if is_http_1_1 and not bits & HOST:
            raise BadRequestHead(400, "it has no Host")
        return RequestHead(method, target, fields, bits, host, is_http_1_1=is_http_1_1)

    def check_begun(self, begun: bytes, start: int) -> int:
        """Check ``begun``, the beginning of a head, from ``start`` on, where a line begins. Raises BadRequestHead.

        Returns where its last line begins, which is perhaps incomplete. Only lines that are complete are sure to be
        right; a client whose first bytes are wrong need not send the rest.
        """
        while (end := begun.find(b"\n", start)) >= 0:
            if end == start or begun[end - 1] != 13:
                raise BadRequestHead(400, "its lines must end with CR LF")
            line = begun[start : end - 1]
            if start:
                self.lines[line]  # raises if it is not a field
            else:
                read_request_line(line)
            start = end + 1
        grammar = _BEGUN_FIELD_LINE if start else _BEGUN_REQUEST_LINE
        rest = begun[start:]
        if not grammar.fullmatch(rest):
            raise BadRequestHead(400, "a line of its head is not a field") if start else _refuse_line(rest)
        return start


def read_request_line(line: bytes) -> tuple[str, str, bool]:
    """Method, target, and whether the version is HTTP/1.1 or later. Raises BadRequestHead."""
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise _refuse_line(line)
    method, target, major, minor = found.groups()
    if major != b"1":
        raise BadRequestHead(505, "This server supports HTTP/1.1 and HTTP/1.0.")
    text = method.decode()
    if text not in METHODS:
        raise _refuse_line(line)
    if target[0] != _SLASH and not _is_other_form(text, target):
        raise BadRequestHead(400, "The request target must begin with a slash, or be an http or https URL.")
    return text, target.decode(), minor != b"0"


def _is_other_form(method: str, target: bytes) -> bool:
    """Whether ``target`` is in authority-form, asterisk-form or absolute-form (RFC 9112 section 3.2)."""
    if method == "CONNECT" or (method == "OPTIONS" and target == b"*"):
        return True
    return _ABSOLUTE_FORM.fullmatch(target) is not None


def _refuse_line(line: bytes) -> BadRequestHead:
    if line.startswith(b"\x16\x03"):
        return BadRequestHead(400, "The client sent TLS to a port for plain HTTP.")
    method = _UNKNOWN_METHOD.match(line)
    if method is not None and method[1].decode() not in METHODS:  # RFC 9110 section 9.1
        if len(method[1]) <= _METHOD_LEN_MAX:
            return BadRequestHead(501, "The method is unknown to this server.")
    elif _NO_VERSION.fullmatch(line):  # HTTP/0.9
        return BadRequestHead(505, "This server supports HTTP/1.1 and HTTP/1.0.")
    reason = "The request line must be a method, a target and a version, separated by single spaces."
    return BadRequestHead(400, reason)
