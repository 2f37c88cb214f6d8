"""Parser for the response heads of upstream servers: framing, and the bytes that the client gets. Pure.

From: RFC 9112 sections 4 to 6, RFC 9110 section 7.6.
Strict, as every disagreement about framing enables response splitting: lines end with CR LF, a name is a token, there
is at most one Content-Length or Transfer-Encoding, the only transfer coding is chunked. Field lines pass as they came,
without hop-by-hop fields; Via is added.

Servers repeat themselves: most field lines come again with the next response, and whole heads come again within a
second. So validated lines are cached, and heads that came twice. Both caches are bounded; their values are immutable.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from qosweb.http.field_lines import FIELD_LINE, KnownLines
from qosweb.http.hop_by_hop import DROPPED, NEVER_NAMED
from qosweb.http.known_heads import KnownHeads

FIELDS_MAX = 256

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])( [\t\x20-\x7e\x80-\xff]*)?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_NEVER_PASSED = DROPPED | {b"x-request-id"}  # the node adds its own
_QOS = frozenset({b"qos-class", b"qos-decision", b"qos-scope"})
_READ_AND_PASSED = frozenset({b"link", b"date", b"content-type"})
_READ = (
    frozenset(
        {b"connection", b"content-length", b"transfer-encoding", b"via", b"link", b"date", b"upgrade", b"content-type"}
    )
    | _QOS
)


class BadUpstreamHead(Exception):
    """The head cannot be forwarded. The text says why."""


class UpstreamHead(NamedTuple):
    """A parsed response head. ``wire`` has neither Transfer-Encoding nor Connection, nor the empty line."""

    status: int
    length: int | None  # of the body, if Content-Length says it
    is_chunked: bool
    closes: bool  # the server closes the connection after the response
    has_date: bool
    links: tuple[str, ...]  # values of Link fields
    is_websocket: bool  # Upgrade names this protocol
    is_event_stream: bool
    wire: bytes
    wire_without_qos: bytes  # without the fields of another QoS server
    plain_len: int = -1  # of the body of a response that just passes, unless to HEAD; -1: it needs more than that

    def values(self, name: str) -> list[str]:
        """The values of a field that passes."""
        wanted = name.lower().encode("latin-1")
        fields = (line.partition(b":") for line in self.wire.split(b"\r\n")[1:])
        return [value.strip(b" \t").decode("latin-1") for field, _, value in fields if field.lower() == wanted]


class _Line(NamedTuple):
    """Meaning of a field line. ``name`` is empty if the line just passes."""

    name: bytes
    value: bytes
    passes: bool


_PASSING = _Line(b"", b"", passes=True)
_DROPPED = _Line(b"", b"", passes=False)


class _ResponseLines(KnownLines[_Line]):
    __slots__ = ()

    def learn(self, line: bytes) -> _Line:
        found = FIELD_LINE.fullmatch(line)
        if found is None:
            raise BadUpstreamHead("its head has a line that is not a field")
        name, value = found[1].lower(), found[2]
        if name in _READ:
            return _Line(name, value, passes=name in _QOS or name in _READ_AND_PASSED)
        return _DROPPED if name.replace(b"_", b"-") in _NEVER_PASSED else _PASSING


class UpstreamHeads:
    """Parses response heads. ``me`` is the name of this node in Via."""

    __slots__ = ("_me", "get", "known", "lines")

    def __init__(self, me: bytes) -> None:
        self._me = me
        self.lines = _ResponseLines()
        self.known: KnownHeads[UpstreamHead] = KnownHeads()
        self.get = self.known.get  # a head that came at least twice: `read`, in short

    def read(self, head: bytes) -> UpstreamHead:
        """Parse a head with its empty line. Raises BadUpstreamHead."""
        known = self.known.get(head)
        if known is None:
            known = self._parse(head)
            self.known.remember(head, known)
        return known

    def _parse(self, head: bytes) -> UpstreamHead:
        lines = head[:-4].split(b"\r\n")
        if len(lines) > FIELDS_MAX:
            raise BadUpstreamHead("its head has too many fields")
        found = _STATUS_LINE.fullmatch(lines[0])
        if found is None:
            raise BadUpstreamHead("it does not begin with a status line")
        minor, code, reason = found.groups()
        del lines[0]
        kept: list[bytes] = []
        special: list[_Line] = []
        for line in lines:
            known = self.lines[line]
            if known is _PASSING:
                kept.append(line)
            elif known is not _DROPPED:
                special.append(known)
                if known.passes:
                    kept.append(line)
        return self._assemble(int(code), minor, reason or b" ", kept, special)

    def _assemble(
        self, status: int, minor: bytes, reason: bytes, kept: list[bytes], special: list[_Line]
    ) -> UpstreamHead:
        length: int | None = None
        is_chunked = has_date = False
        closes, named = minor == b"0", set[bytes]()
        via: list[bytes] = []
        links: list[str] = []
        is_websocket = is_event_stream = False
        for name, value, _ in special:
            if name == b"date":
                has_date = True
            elif name == b"content-length":
                if length is not None or not _LENGTH.fullmatch(value):
                    raise BadUpstreamHead("its length is ambiguous")
                length = int(value)
            elif name == b"transfer-encoding":
                if is_chunked or value.lower() != b"chunked" or minor == b"0":
                    raise BadUpstreamHead("it has a transfer coding other than chunked")
                is_chunked = True
            elif name == b"connection":
                for word in value.lower().split(b","):
                    named.add(word.strip())
            elif name == b"via":
                via.append(value)
            elif name == b"link":
                links.append(value.decode("latin-1"))
            elif name == b"upgrade":
                is_websocket = value.lower() == b"websocket"
            elif name == b"content-type":
                is_event_stream = value.lower().startswith(b"text/event-stream")
        if is_chunked and (length is not None or status < 200 or status == 204):
            raise BadUpstreamHead("its length is ambiguous")
        if named:
            closes = b"close" in named or (closes and b"keep-alive" not in named)
            named -= NEVER_NAMED
            kept = [line for line in kept if line.partition(b":")[0].lower() not in named]
        kept = [b"HTTP/1.1 %d%b" % (status, reason), *kept]
        kept.append(b"Via: " + b", ".join([*via, b"1." + minor + b" " + self._me]))
        if length is not None and status >= 200 and status != 204:
            kept.append(b"Content-Length: %d" % length)
        wire = b"\r\n".join([*kept, b""])
        without_qos = wire
        if any(line.name in _QOS for line in special):
            without_qos = b"\r\n".join([*(one for one in kept if one.partition(b":")[0].lower() not in _QOS), b""])
        is_plain = 200 <= status < 500 and not (closes or is_chunked or links or is_websocket or is_event_stream)
        return UpstreamHead(
            status,
            length,
            is_chunked,
            closes,
            has_date,
            tuple(links),
            is_websocket,
            is_event_stream,
            wire,
            without_qos,
            -1 if not is_plain else 0 if status in (204, 304) else -1 if length is None else length,
        )
