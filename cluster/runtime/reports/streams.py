"""Report streams of a member: one TCP connection for each other member of the view, beside the link to it.

A stream uses the port, key and handshake of the group. The process that dialed the link dials the stream too, so it has
an address that works. A frame is made when the stream takes it: what waits for a slow peer stays in the log, where it
can be purged. So a stream holds at most one frame that the kernel did not take.
Above: `api`.  Below: the transport of the group, `cluster.reports.broadcast`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from cluster.reports.broadcast import InvalidReportFrame
from cluster.reports.frames import encode_report_frame
from cluster.runtime.net.addresses import parse_address
from cluster.runtime.net.handshake import REPORTS_MAGIC
from cluster.runtime.net.wire import LENGTH, BadFrame

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId
    from cluster.reports.broadcast import SemanticBroadcast
    from cluster.reports.messages import ReportFrame
    from cluster.runtime.net.connection import PeerConnection
    from cluster.runtime.net.transport import Transport

DIAL_EVERY_S = 0.2  # interval between attempts to open a missing stream

log = logging.getLogger("cluster.reports")


class ReportStreams:
    """Keeps a stream to each other member of the view, and moves frames between it and the automaton."""

    def __init__(self, transport: Transport, reports: SemanticBroadcast, on_input: Callable[[], None]) -> None:
        self._transport = transport
        self._reports = reports
        self._on_input = on_input  # called after each input: sets the clock before, writes streams later
        self._streams: dict[ProcessId, PeerConnection] = {}
        self._dialing: dict[ProcessId, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._closed = False
        transport.streams = self
        self.dial_missing()

    # ---- connections

    def dial_missing(self) -> None:
        """Dial the members that have no stream and whose link this process dialed; look again later."""
        if self._timer is not None:
            self._timer.cancel()
        if self._closed:
            return
        self._timer = self._loop.call_later(DIAL_EVERY_S, self.dial_missing)
        for member in self._reports.view.members:
            link = self._transport.connections.get(member)
            if link is not None and link.we_dialed and member not in self._streams and member not in self._dialing:
                task = self._loop.create_task(self._dial(member, link))
                self._dialing[member] = task
                task.add_done_callback(lambda _task, member=member: self._dialing.pop(member, None))  # type: ignore[misc]

    async def _dial(self, member: ProcessId, link: PeerConnection) -> None:
        options = self._transport.options
        host, port = parse_address(link.where)
        tls = options.tls.client if options.tls else None
        connection = self._transport.make(we_dialed=True, magic=REPORTS_MAGIC)
        try:
            async with asyncio.timeout(options.bounds.dial_s):
                await self._loop.create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=host if tls else None
                )
            await connection.done
        except (OSError, TimeoutError, ssl.SSLError) as error:
            log.debug("no report stream to %s: %s", member, error)
        finally:
            if connection.identity is None:
                connection.close()

    def on_stream_opened(self, connection: PeerConnection) -> None:
        peer = connection.peer
        held = self._streams.get(peer)
        self._streams[peer] = connection
        if held is not None:
            held.close()
        self._on_input()
        self._reports.on_connected(peer)

    def on_stream_closed(self, connection: PeerConnection) -> None:
        if connection.identity is not None and self._streams.get(connection.peer) is connection:
            del self._streams[connection.peer]
            self._on_input()
            self._reports.on_disconnected(connection.peer)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dialing.values():
            task.cancel()
        for connection in list(self._streams.values()):
            connection.close()

    # ---- frames

    def on_stream_frame(self, connection: PeerConnection, frame: ReportFrame) -> None:
        """Raises BadFrame if the peer violates the protocol: the stream is closed."""
        if self._streams.get(connection.peer) is not connection:
            return
        self._on_input()
        try:
            self._reports.on_frame(connection.peer, frame)
        except InvalidReportFrame as error:
            raise BadFrame(str(error)) from None

    def on_stream_writable(self, _connection: PeerConnection) -> None:
        self._on_input()

    def write(self) -> None:
        """Write what the streams take now."""
        for peer in list(self._reports.due):
            connection = self._streams.get(peer)
            if connection is None:
                self._reports.due.discard(peer)
                continue
            while connection.is_writable and not connection.is_closed:
                frame = self._reports.next_frame(peer)
                if frame is None:
                    break
                data = encode_report_frame(frame)
                connection.put((LENGTH.pack(len(data)) + data,), patient=True)
                connection.flush()

    @property
    def peers(self) -> list[ProcessId]:
        """The processes to which a stream is open."""
        return list(self._streams)
