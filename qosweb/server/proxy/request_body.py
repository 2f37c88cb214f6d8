"""Request body on its way from a client to another server: parsed, framed anew, within size and time limits.

A small body is read completely before anything else happens with its request, so that a slow sender holds neither a
channel nor a connection to the server. A larger one is streamed: what the server does not take stays in the socket of
the client. Memory for small bodies is bounded (`places`); a small body that finds no place is streamed, too.
Trailers are parsed and dropped, as RFC 9112 section 7.1.2 allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.http.bodies import BadBody, Body, ChunkedBody, SizedBody
from qosweb.server.request.answers import Answer, explain
from qosweb.units import format_size

if TYPE_CHECKING:
    from qosweb.http.request_heads import RequestHead
    from qosweb.server.connection.client_share import SharedPlaces

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
SMALL_MAX = 64 << 10
SMALL_BODIES_MAX = 1_000  # in memory at a time
HELD_MAX = 128 << 10  # bytes of a large body that wait for a connection to the server
LAST_CHUNK = b"0\r\n\r\n"


class BodyLimits(NamedTuple):
    size_max: int
    rate_min_bps: int  # on average, after the first `pause_max_s`
    pause_max_s: float  # without a byte
    total_s: float


class RequestBody:
    """The body of one request. ``refusal`` is the answer to one that is malformed, too large or too slow."""

    __slots__ = (
        "_began",
        "_body",
        "_client",
        "_limits",
        "_parts",
        "_paused_at",
        "_places",
        "active_at",
        "held",
        "is_chunked",
        "is_continued",
        "is_small",
        "length",
        "received",
        "refusal",
    )

    def __init__(self, head: RequestHead, client: str, now: float, limits: BodyLimits, places: SharedPlaces) -> None:
        self.is_chunked = head.is_chunked
        self.length = None if self.is_chunked else head.length
        self.is_continued = False  # the client was told to send it
        self.received = 0  # bytes of content
        self.held = 0  # of these bytes, not yet taken
        self.refusal: Answer | None = None
        self.active_at = now  # when the client last sent bytes, or reading was last resumed
        self._began = now
        self._paused_at = 0.0
        self._limits = limits
        self._body: Body = ChunkedBody() if self.length is None else SizedBody(self.length)
        self._parts: list[bytes] = []
        self._client = client
        self._places: SharedPlaces | None = None
        if self.length is not None and self.length > limits.size_max:
            self._refuse_size()
        self.is_small = (self.length or 0) <= SMALL_MAX and places.has_room_for(client)
        if self.is_small:
            self._places = places
            places.take(client)

    @property
    def is_complete(self) -> bool:
        return self._body.is_complete

    @property
    def holds_up(self) -> bool:
        """Whether the request waits until more of it has arrived."""
        return self.is_small and not self._body.is_complete and self.refusal is None

    def feed(self, data: bytes, now: float) -> bytes:
        """Add bytes from the client. Returns the bytes after the end of the body."""
        self.active_at = now
        if self.refusal is not None:
            return b""
        try:
            part, rest = self._body.feed(data)
        except BadBody as bad:
            self.refuse(400, f"The body is malformed: {bad}.")
            return b""
        if part:
            self.received += len(part)
            self.held += len(part)
            self._parts.append(b"%x\r\n%b\r\n" % (len(part), part) if self.is_chunked else part)
            if self.received > self._limits.size_max:
                self._refuse_size()
            elif self.received > SMALL_MAX:
                self.is_small = False
        if self.is_chunked and self._body.is_complete:
            self._parts.append(LAST_CHUNK)
        return rest

    def take(self) -> list[bytes]:
        """The bytes since the last call, framed for the server. A small body stays for a second attempt."""
        if self.is_small:
            return self._parts
        parts, self._parts = self._parts, []
        self.held = 0
        return parts

    def start(self, now: float) -> None:
        """The client may send now: its time begins."""
        self._began = self.active_at = now
        self._paused_at = 0.0

    def on_paused(self, now: float) -> None:
        """Reading from the client is paused: time does not count."""
        self._paused_at = now

    def on_resumed(self, now: float) -> None:
        self._began += now - (self._paused_at or now)
        self._paused_at = 0.0
        self.active_at = now

    def check_time(self, now: float) -> None:
        """Refuse a body that arrives too slowly."""
        if self._body.is_complete or self._paused_at or self.refusal is not None:
            return
        limits, spent_s = self._limits, now - self._began
        if now - self.active_at > limits.pause_max_s:
            self.refuse(408, f"No byte of the request body arrived within {limits.pause_max_s:g} seconds.")
        elif spent_s > limits.total_s:
            self.refuse(408, f"The request body did not arrive within {limits.total_s:g} seconds.")
        elif self.received < (spent_s - limits.pause_max_s) * limits.rate_min_bps:
            rate = format_size(limits.rate_min_bps)
            self.refuse(408, f"The request body arrives more slowly than {rate} per second.")

    def refuse(self, status: int, reason: str) -> None:
        self.refusal = explain(status, reason, must_close=True)

    def release(self) -> None:
        """The request is over."""
        self._parts = []
        if self._places is not None:
            self._places.give_back(self._client)
            self._places = None

    def _refuse_size(self) -> None:
        said = "more" if self.length is None else f"{self.length:,} bytes"
        most = self._limits.size_max
        self.refuse(413, f"The request body has {said}; this server accepts at most {most:,} bytes.")
