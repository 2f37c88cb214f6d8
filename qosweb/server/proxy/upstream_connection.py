"""Connection to an upstream server: an asyncio protocol that writes one request at a time and reads its response.

Bytes in, bytes out: what arrives is parsed within ``data_received`` and goes to the relay that uses the connection. A
connection is used again only after a response whose end is beyond doubt. Bytes that no request has asked for end it.
Above: `qosweb.server.proxy.relay` (relay), `qosweb.server.proxy.upstream_server` (pool).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from qosweb.http.bodies import BadBody, Body, ChunkedBody, SizedBody
from qosweb.http.upstream_heads import BadUpstreamHead, UpstreamHead

if TYPE_CHECKING:
    from qosweb.server.proxy.plain_relay import PlainRelay
    from qosweb.server.proxy.relay import Relay
    from qosweb.server.proxy.upstream_server import UpstreamServer

HEAD_MAX = 64 << 10
INTERIM_MAX = 16  # responses 1xx before the final one
WRITE_BUFFER_HIGH = 128 << 10
END_OF_HEAD = b"\r\n\r\n"


class UntilClose:
    """A body that ends with the connection."""

    is_complete = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""


_NO_BODY = SizedBody(0)


class UpstreamConnection(asyncio.Protocol):
    __slots__ = (
        "_body",
        "_head",
        "_interim",
        "_partial",
        "_server",
        "has_answered",
        "idle_since",
        "is_read_paused",
        "is_reused",
        "is_write_paused",
        "must_close",
        "plain",
        "relay",
        "transport",
    )

    def __init__(self, server: UpstreamServer) -> None:
        self.relay: Relay | None = None
        self.plain: PlainRelay | None = None  # uses the connection instead of a relay; it sets and clears this itself
        self.transport: asyncio.Transport | None = None
        self.idle_since = 0.0
        self.is_reused = False
        self.is_write_paused = False
        self.has_answered = False  # the server has sent something since the request
        self.must_close = False  # not to be used again
        self._server = server
        self.is_read_paused = False
        self._partial = b""  # of a head
        self._interim = 0
        self._head: UpstreamHead | None = None
        self._body: Body | UntilClose = _NO_BODY

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)

    def begin(self, relay: Relay) -> None:
        """``relay`` uses the connection until `release`."""
        self.relay = relay
        self.has_answered = False
        self._head = None
        self._interim = 0

    def continue_with(self, relay: Relay) -> None:
        """``relay`` takes the place of the plain one."""
        self.plain = None
        self.relay = relay
        self._head = None
        self._interim = 0

    def continue_body(self, head: UpstreamHead, left: int) -> None:
        """The response has begun: ``left`` bytes of its body are missing."""
        self._head = head
        self._body = SizedBody(left)

    @property
    def is_reusable(self) -> bool:
        return self.transport is not None and not self.must_close and not self.is_write_paused

    def abort(self) -> None:
        self.relay = self.plain = None
        if self.transport is not None:
            self.transport.abort()

    def pause_reading(self) -> None:
        if self.transport is not None and not self.is_read_paused:
            self.is_read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.transport is not None and self.is_read_paused:
            self.is_read_paused = False
            self.transport.resume_reading()

    # ---- callbacks of the event loop

    def data_received(self, data: bytes) -> None:
        plain = self.plain
        if plain is not None:
            self.has_answered = True
            try:
                if plain.on_data(data):
                    return
            except BadUpstreamHead:
                pass
            except Exception as error:  # a bug here must cost no more than this request
                plain.on_fault(error)
                return
            plain.promote()  # a full relay takes its place
        relay = self.relay
        if relay is None:
            self.abort()
            return
        self.has_answered = True
        try:
            if relay.is_tunnel:
                relay.on_tunnel_data(data)
            elif self._head is None:
                self._read_head(relay, data)
            else:
                self._read_body(relay, data)
        except BadUpstreamHead as bad:
            relay.on_bad_response(str(bad))
        except BadBody as bad:
            relay.on_bad_response(str(bad))
        except Exception as error:  # a bug here must cost no more than this request
            relay.on_fault(error)

    def eof_received(self) -> None:
        return None  # closes the transport

    def connection_lost(self, exc: BaseException | None) -> None:
        self.transport = None
        if self.plain is not None:
            self.plain.promote()
        relay, self.relay = self.relay, None
        self._server.on_lost(self)
        if relay is None:
            return
        if relay.is_tunnel:
            relay.on_tunnel_end()
        elif exc is None and isinstance(self._body, UntilClose) and self._head is not None:
            relay.on_body(b"", ends=True)
        else:
            relay.on_lost(self)

    def pause_writing(self) -> None:
        self.is_write_paused = True
        if self.plain is not None:
            self.plain.promote()
        if self.relay is not None:
            self.relay.on_server_paused()

    def resume_writing(self) -> None:
        self.is_write_paused = False
        if self.relay is not None:
            self.relay.on_server_resumed()

    # ---- responses

    def _read_head(self, relay: Relay, data: bytes) -> None:
        if self._partial:
            data = self._partial + data
            self._partial = b""
        while True:
            end = data.find(END_OF_HEAD) + 4
            if end == 3 or end > HEAD_MAX:
                if len(data) > HEAD_MAX:
                    raise BadUpstreamHead("its head is too large")
                self._partial = data
                return
            head = self._server.heads.read(data[:end])
            data = data[end:]
            if head.status >= 200:
                break
            if head.status == 101 and head.is_websocket and relay.wants_upgrade:
                relay.on_upgrade(head, data)
                return
            self._on_interim(relay, head)
        self._head = head
        if relay.exchange.is_head or head.status in (204, 304):
            self._body = _NO_BODY
        elif head.is_chunked:
            self._body = ChunkedBody()
        elif head.length is None:
            self._body = UntilClose()
        else:
            self._body = SizedBody(head.length)
        relay.on_head(head, has_body=self._body is not _NO_BODY)
        if self.relay is relay:
            self._read_body(relay, data)

    def _on_interim(self, relay: Relay, head: UpstreamHead) -> None:
        self._interim += 1
        if head.status == 101 or self._interim > INTERIM_MAX:
            raise BadUpstreamHead("it has an interim response that was not asked for")
        relay.on_interim(head)

    def _read_body(self, relay: Relay, data: bytes) -> None:
        assert self._head is not None
        part, rest = self._body.feed(data)
        ends = self._body.is_complete
        if ends and (rest or self._head.closes):
            self.must_close = True  # bytes after the response: the server cannot be trusted any further
        relay.on_body(part, ends=ends)
