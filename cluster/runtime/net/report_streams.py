"""Streams of reports: one connection to each peer beside the link, on the same port, with the same handshake.

They are apart because a report that becomes obsolete must not wait behind anything, nor be written before the peer can
take it: frames are made when the connection takes more, so a purge reaches everything that is not written yet. The
lower of two processes dials, while the two have a link. A stream ends with the link.
Above: the reports service, as its listener.  Below: transport, connections.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from typing import TYPE_CHECKING, Protocol

from cluster.reports.broadcast import InvalidReportFrame
from cluster.reports.frames import decode_report_frame, encode_report_frame
from cluster.runtime.net.addresses import parse_address
from cluster.runtime.net.handshake import GARBAGE, REPORTS, HandshakeFailed
from cluster.runtime.net.wire import LENGTH, UNREADABLE, BadFrame

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from cluster.reports.messages import ReportFrame
    from cluster.runtime.net.connection import PeerConnection
    from cluster.runtime.net.transport import Transport

FRAME_LEN_MAX = 1024 * 1024
UNSENT_BYTES_MAX = 32 * 1024  # written to a stream that the kernel has not taken: beyond it no frame is made

log = logging.getLogger("cluster.reports")


class StreamListener(Protocol):
    """The reports service."""

    def on_stream(self, peer: ProcessId) -> None: ...
    def on_stream_closed(self, peer: ProcessId) -> None: ...
    def on_report_frame(self, peer: ProcessId, frame: ReportFrame) -> None: ...
    def next_frame(self, peer: ProcessId) -> ReportFrame | None: ...
    def turn(self) -> None: ...


def decode_frame(data: bytes | memoryview) -> ReportFrame:
    try:
        return decode_report_frame(data)
    except UNREADABLE as error:
        raise BadFrame(f"not a frame of a report stream: {error}") from None


class ReportStreams:
    """The report streams of a process."""

    def __init__(self, transport: Transport, listener: StreamListener) -> None:
        self.counters = transport.counters
        self.connections: dict[ProcessId, PeerConnection] = {}
        self._transport = transport
        self._listener = listener
        self._dials: dict[ProcessId, asyncio.Task[None]] = {}
        self._closing = False

    # ---- dialing

    def on_link(self, peer: ProcessId) -> None:
        """The link to this peer, which has the service, is connected."""
        if self._transport.me < peer and peer not in self.connections and peer not in self._dials and not self._closing:
            self._dials[peer] = asyncio.get_running_loop().create_task(self._dial(peer))

    def on_link_lost(self, peer: ProcessId) -> None:
        connection = self.connections.get(peer)
        if connection is not None:
            connection.close()

    async def _dial(self, peer: ProcessId) -> None:
        bounds, attempts = self._transport.options.bounds, 0
        try:
            while not self._closing and peer not in self.connections and peer in self._transport.connections:
                addresses = self._transport.book[peer.name]
                if addresses:
                    await self._attempt(peer, addresses[attempts % len(addresses)])
                if peer not in self.connections:
                    pause = min(bounds.backoff_min_s * 2 ** min(attempts, 16), bounds.backoff_max_s)
                    await asyncio.sleep(pause * (0.5 + random.random()))
                attempts += 1
        finally:
            del self._dials[peer]

    async def _attempt(self, peer: ProcessId, address: str) -> None:
        options, loop = self._transport.options, asyncio.get_running_loop()
        host, port = parse_address(address)
        tls = options.tls.client if options.tls else None
        connection = self._transport.make(we_dialed=True, stream=REPORTS)
        try:
            async with asyncio.timeout(options.bounds.dial_s):
                await loop.create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=host if tls else None
                )
            await connection.done
        except (OSError, TimeoutError, ssl.SSLError) as error:
            log.debug("no report stream to %s at %s: %s", peer, address, error)
        finally:
            if connection.identity is None or connection.peer != peer:
                connection.close()

    # ---- connection events

    def on_opened(self, connection: PeerConnection) -> None:
        """The transport authenticated the peer of a report stream."""
        connection.hand_over(self, decode_frame, frame_len_max=FRAME_LEN_MAX, unsent_bytes_max=UNSENT_BYTES_MAX)
        peer = connection.peer
        before = self.connections.pop(peer, None)
        if before is not None:
            before.close()
        if self._closing:
            connection.close()
            return
        self.connections[peer] = connection
        self._listener.on_stream(peer)

    def on_frame(self, connection: PeerConnection, frame: ReportFrame) -> None:
        if self.connections.get(connection.peer) is not connection:
            return
        try:
            self._listener.on_report_frame(connection.peer, frame)
        except InvalidReportFrame as error:
            log.warning("closed the report stream of %s: %s", connection.peer, error)
            connection.fail(HandshakeFailed(GARBAGE, str(error)))

    def on_read_done(self) -> None:
        self._listener.turn()

    def on_writable(self, _connection: PeerConnection) -> None:
        self._listener.turn()

    def on_closed(self, connection: PeerConnection) -> None:
        if self.connections.get(connection.peer) is not connection:
            return
        del self.connections[connection.peer]
        self._listener.on_stream_closed(connection.peer)
        if connection.peer in self._transport.connections:
            self.on_link(connection.peer)

    def on_disposed(self, connection: PeerConnection) -> None:
        pass

    def on_data_queued(self, connection: PeerConnection) -> None:
        pass

    # ---- sending

    def write(self, peer: ProcessId) -> None:
        """Write the frames for this peer, as long as its connection takes them."""
        connection = self.connections.get(peer)
        while connection is None or not (connection.is_paused or connection.is_closed):
            frame = self._listener.next_frame(peer)
            if frame is None or connection is None:
                return
            data = encode_report_frame(frame)
            self.counters.frames_sent += 1
            connection.put((LENGTH.pack(len(data)) + data,))
            connection.flush()

    # ---- stop

    def hang_up(self) -> None:
        self._closing = True
        for task in self._dials.values():
            task.cancel()
        for connection in list(self.connections.values()):
            connection.close()
