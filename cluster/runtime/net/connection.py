"""Peer connection: handshake, then frames; all frames sent within one loop turn leave in one write.

Above: transport, as its owner.  Below: an asyncio transport, plain or TLS.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from cluster.runtime.net.handshake import (
    BROKEN,
    GARBAGE,
    HANDSHAKE_LEN_MAX,
    SLOW,
    Handshake,
    HandshakeFailed,
    PeerRefused,
)
from cluster.runtime.net.wire import LENGTH, BadFrame, Splitter, decode_frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cluster.names import ProcessId
    from cluster.runtime.api.options import Bounds
    from cluster.runtime.net.handshake import PeerIdentity
    from cluster.runtime.observe.counters import Counters

TLS_ENDS_S = 0.25  # asyncio limits a TLS handshake itself; this much later its notification is not awaited any more
UNREAD = 4096  # read size on a connection that this side closed and the peer has not
JOINED_MAX = 16 * 1024  # frames are joined for one write up to this size; larger ones are written separately


class ConnectionOwner(Protocol):
    """Receives the events of a connection: the transport."""

    counters: Counters

    def on_opened(self, connection: PeerConnection) -> None: ...
    def on_frame(self, connection: PeerConnection, frame: Any) -> None: ...
    def on_read_done(self) -> None: ...
    def on_closed(self, connection: PeerConnection) -> None: ...
    def on_disposed(self, connection: PeerConnection) -> None: ...
    def on_data_queued(self, connection: PeerConnection) -> None: ...
    def on_writable(self, connection: PeerConnection) -> None: ...


class PeerConnection(asyncio.BufferedProtocol):
    """One connection to a peer, from the handshake to the close."""

    __slots__ = (
        "_bounds", "_decode", "_flushes", "_handshake", "_limit", "_loop", "_owner", "_parts", "_splitter",
        "_transport", "done", "heard_at", "identity", "is_closed", "is_paused", "opened_at", "peer", "reason", "spoke",
        "stream", "we_dialed",
    )  # fmt: skip

    peer: ProcessId  # the authenticated peer; unset before `identity` is set

    def __init__(
        self, owner: ConnectionOwner, handshake: Handshake, bounds: Bounds, *, we_dialed: bool, stream: str = ""
    ) -> None:
        self._owner = owner
        self._decode: Callable[[memoryview], object] = decode_frame
        self._handshake = handshake
        self._bounds = bounds
        self._splitter = Splitter(HANDSHAKE_LEN_MAX)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._parts: list[bytes] = []
        self._flushes = False  # the owner knows that there is data to flush
        self.spoke = False  # the peer sent a frame that needs a response, which may wait for our disk
        self.we_dialed = we_dialed
        self.stream = stream  # the service that has this connection for itself; empty for the link
        self.is_paused = False  # more was written than the kernel takes at the moment
        self.identity: PeerIdentity | None = None  # set once the peer is authenticated
        self.opened_at = self.heard_at = 0.0  # loop times
        self.is_closed = False
        self.reason: HandshakeFailed | None = None  # why the connection failed
        self.done: asyncio.Future[None] = self._loop.create_future()  # done when opened, or closed before that

    @property
    def where(self) -> str:
        """The remote address."""
        found = self._transport.get_extra_info("peername") if self._transport is not None else None
        if not isinstance(found, tuple):
            return "an unknown address"
        return f"[{found[0]}]:{found[1]}" if ":" in str(found[0]) else f"{found[0]}:{found[1]}"

    @property
    def refused_by(self) -> str:
        """The name of the peer if it refused the connection."""
        return self._handshake.refused_by

    def on_accepted(self) -> None:
        """Accepted. A failing TLS handshake triggers neither `connection_made` nor a close event, so start a timer."""
        self._limit = self._loop.call_later(self._bounds.handshake_s + TLS_ENDS_S, self._too_slow)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of uvloop, or asyncio
        self._transport = transport
        if self.is_closed:
            transport.abort()
            return
        if self._limit is not None:
            self._limit.cancel()
        self._limit = self._loop.call_later(self._bounds.handshake_s, self._too_slow)
        self._send_handshake(self._handshake.open())

    def _too_slow(self) -> None:
        self.fail(HandshakeFailed(SLOW, f"no handshake within {self._bounds.handshake_s:g} s"))

    def _send_handshake(self, message: bytes) -> None:
        if message and self._transport is not None:
            self._transport.write(LENGTH.pack(len(message)) + message)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return memoryview(bytearray(UNREAD)) if self.is_closed else self._splitter.room()

    def buffer_updated(self, nbytes: int) -> None:
        if not self.is_closed:
            self._take(nbytes)

    def _take(self, count: int) -> None:
        """Process `count` bytes that arrived."""
        counters = self._owner.counters
        counters.bytes_received += count
        try:
            for text in self._splitter.frames(count):
                if self.is_closed:
                    return
                if self.identity is None:
                    self._shake(text)
                else:
                    counters.frames_received += 1
                    self._owner.on_frame(self, self._decode(text))
        except BadFrame as error:
            if self.identity is not None:
                counters.ejected += 1
            self.fail(HandshakeFailed(GARBAGE, str(error)))
        except PeerRefused as unwanted:
            self._send_handshake(unwanted.answer)
            self.fail(unwanted, at_once=False)
        except HandshakeFailed as failed:
            self.fail(failed)
        self.heard_at = self._loop.time()
        self._owner.on_read_done()

    def _shake(self, text: memoryview) -> None:
        handshake = self._handshake
        self._send_handshake(handshake.receive(text))
        if handshake.peer is None:
            return
        if self._limit is not None:
            self._limit.cancel()
        self.identity = handshake.peer
        self.peer = handshake.peer.process
        self.stream = self.stream or handshake.peer.stream
        self._splitter.frame_len_max = self._bounds.frame_len_max
        self.opened_at = self.heard_at = self._loop.time()
        if not self.done.done():
            self.done.set_result(None)
        self._owner.on_opened(self)

    def hand_over(
        self,
        owner: ConnectionOwner,
        decode: Callable[[memoryview], object],
        *,
        frame_len_max: int,
        unsent_bytes_max: int,
    ) -> None:
        """From now on the connection belongs to this owner, with frames of another kind."""
        self._owner = owner
        self._decode = decode
        self._splitter.frame_len_max = frame_len_max
        if self._transport is not None:
            self._transport.set_write_buffer_limits(unsent_bytes_max)

    # ---- sending

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self._owner.on_writable(self)

    def put(self, parts: tuple[bytes, ...], *, patient: bool = False) -> None:
        """Queue a frame. It leaves with the next flush; a patient one may wait for others to leave with."""
        self._parts += parts
        if not patient and not self._flushes:
            self._flushes = True
            self._owner.on_data_queued(self)

    def flush(self) -> bool:
        """Write everything queued. False: the peer does not read and too much is queued for it."""
        self._flushes = False
        transport, parts = self._transport, self._parts
        if not parts or transport is None or self.is_closed:
            return True
        self._parts = []
        counters = self._owner.counters
        length = sum(map(len, parts))
        counters.bytes_sent += length
        counters.writes += 1
        if length >= JOINED_MAX:
            transport.writelines(parts)
        else:
            transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        return transport.get_write_buffer_size() <= self._bounds.unsent_bytes_max

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None or self.is_closed else self._transport.get_write_buffer_size()

    # ---- close

    def fail(self, failed: HandshakeFailed, *, at_once: bool = True) -> None:
        """Close the connection for this reason."""
        if self.reason is None:
            self.reason = failed
        self.close(at_once=at_once)

    def close(self, *, at_once: bool = True) -> None:
        if self.is_closed:
            return
        if not at_once:
            self.flush()
        self.is_closed = True
        if self._limit is not None:
            self._limit.cancel()
        if self._transport is not None:
            if at_once:
                self._transport.abort()
            else:
                self._transport.close()
        self._finish()

    def retire(self, after_s: float) -> None:
        """Flush, stop reading, and close after this time unless the peer closes first."""
        self.flush()
        self.is_closed = True
        self._limit = self._loop.call_later(after_s, self.abort)
        self._finish()

    def abort(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._owner.on_disposed(self)
        if not self.is_closed:
            self.is_closed = True
            if self._limit is not None:
                self._limit.cancel()
            if self.identity is None and self.reason is None:
                self.reason = HandshakeFailed(
                    BROKEN, "the peer closed the connection during the handshake (does it have another cluster key?)"
                )
            self._finish()

    def _finish(self) -> None:
        self._parts = []
        if not self.done.done():
            self.done.set_result(None)
        self._owner.on_closed(self)
