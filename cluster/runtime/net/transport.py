"""Keeps one connection to each known peer: listens, dials, and resolves duplicate connections.

Both processes of a pair may dial. If two connections of the same two lives meet within a second, the connection that
the lower process dialed stays: both sides decide alike. Otherwise the newer one stays: a process with a connection does
not dial, so the older one is broken and only one side knows yet. Replacing a connection does not mean that the peer was
lost. A process with a known name but another incarnation is accepted only when the known one has been silent.
Above: driver, as its listener.  Below: connections, dialing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Protocol

from cluster.messages import Ack, Data, LinkAck
from cluster.runtime.disk.rows import RECOVERIES_MAX, RECOVERY_LEN_MAX, all_recoveries
from cluster.runtime.net.addresses import AddressBook, format_address, parse_address
from cluster.runtime.net.connection import PeerConnection
from cluster.runtime.net.dialing import Dialer
from cluster.runtime.net.frame_validation import validate_frame
from cluster.runtime.net.handshake import (
    BROKEN,
    CROWD,
    GARBAGE,
    NONCE_LEN,
    REFUSED,
    Handshake,
    HandshakeFailed,
    PeerIdentity,
    SeenNonces,
)
from cluster.runtime.net.wire import ADDRESSES_MAX, Addresses, BadFrame, FrameWriter, RecoveryNotice, Travelling
from cluster.runtime.observe.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.messages import Frame
    from cluster.names import ProcessId
    from cluster.runtime.api.options import Options
    from cluster.runtime.disk.rows import Recovery
    from cluster.runtime.net.report_streams import ReportStreams

MEETING_S = 1.0  # two connections within this time count as simultaneous
EVERYWHERE = ("0.0.0.0", "::")
SWEEP_S = 0.5  # interval of the check for silent connections
# Acknowledgements may wait this long for a peer that expects no response: they only tell it of a third peer's data.
PATIENCE_S = 0.001
LOG_EVERY_S = 10.0  # at most one log line per kind of failed handshake in this time

log = logging.getLogger("cluster.transport")


class TransportListener(Protocol):
    """Receives peers, frames and group information: the driver."""

    def on_connected(self, peer: ProcessId) -> None: ...
    def on_disconnected(self, peer: ProcessId) -> None: ...
    def on_received(self, peer: ProcessId, frame: Frame) -> None: ...
    def turn(self) -> None: ...
    def on_founding(self, founding: str) -> None: ...
    def on_recoveries(self, recoveries: tuple[Recovery, ...]) -> None: ...
    def is_needed(self, name: str) -> bool: ...


class CannotListen(Exception):
    """An address to listen on is not available."""


class Transport:
    """All connections of a process."""

    def __init__(self, options: Options, me: ProcessId, boot: int, group: str, listener: TransportListener) -> None:
        self.options = options
        self.dialect = options.dialect
        self.services: tuple[str, ...] = ()  # optional services of this process
        self.report_streams: ReportStreams | None = None
        self.me = me
        self.boot = boot
        self.group = group  # founding of the cluster; empty while unknown
        self.listener = listener
        self.recoveries: tuple[Recovery, ...] = ()  # recoveries without a majority; sent to every peer
        self.counters = Counters()
        self.connections: dict[ProcessId, PeerConnection] = {}
        self.refused_last = ""  # reason of the last refusal, by a peer or by this process
        self.addresses: tuple[str, ...] = ()  # where peers reach this process
        self.book = AddressBook(me.name)
        self._writer = FrameWriter(options.bounds.frame_len_max)
        self._seen = SeenNonces()
        self._strangers: set[PeerConnection] = set()
        self._replaced: set[PeerConnection] = set()  # no longer read, closed soon
        self._unflushed: list[PeerConnection] = []
        self._spoke: list[PeerConnection] = []
        self._patience: asyncio.TimerHandle | None = None
        self._servers: list[asyncio.Server] = []
        self._dialing = Dialer(self)
        self._loop = asyncio.get_running_loop()
        self._logged_at: dict[str, float] = {}
        self._ejected: dict[ProcessId, float] = {}  # refused peers, and until when
        self._sweep: asyncio.TimerHandle | None = None
        self._closing = False

    # ---- start and stop

    async def listen(self) -> None:
        """Bind the addresses. Connections are neither accepted nor dialed before `start`."""
        loop = asyncio.get_running_loop()
        tls = self.options.tls.server if self.options.tls else None
        bound = []
        for address in self.options.listen:
            host, port = parse_address(address)
            if host in EVERYWHERE and not self.options.advertise:
                raise CannotListen(
                    f"{address} means all addresses of this machine: set the address that peers connect to (advertise)"
                )
            try:
                server = await loop.create_server(
                    self._accept,
                    host,
                    port,
                    ssl=tls,
                    start_serving=False,
                    backlog=128,
                    ssl_handshake_timeout=self.options.bounds.handshake_s if tls else None,
                )
            except OSError as error:
                await self.close()
                raise CannotListen(
                    f"cannot listen on {address}: {error.strerror or error}; another process may use this port, or "
                    "this machine does not have the address"
                ) from None
            self._servers.append(server)
            bound += [format_address(*socket.getsockname()[:2]) for socket in server.sockets]
        self.addresses = self.options.advertise or tuple(bound)

    async def start(self) -> None:
        for server in self._servers:
            await server.start_serving()
        for contact in self.options.contacts:
            self._dialing.contact(contact)
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._close_silent_connections)

    def hang_up(self) -> None:
        """Close everything at once; accept and dial no more."""
        self._closing = True
        if self.report_streams is not None:
            self.report_streams.hang_up()
        for server in self._servers:
            server.close()
        self._dialing.stop()
        for connection in [*self.connections.values(), *self._strangers]:
            connection.close()
        for connection in list(self._replaced):
            connection.abort()

    async def close(self) -> None:
        """Flush, then hang up."""
        self._closing = True
        if self.report_streams is not None:
            self.report_streams.hang_up()
        for timer in (self._sweep, self._patience):
            if timer is not None:
                timer.cancel()
        for server in self._servers:
            server.close()
        await self._dialing.close()
        for connection in [*self.connections.values(), *self._strangers]:
            connection.close(at_once=connection.identity is None)
        for connection in list(self._replaced):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()

    def keep_connected(self, names: Iterable[str]) -> None:
        """Keep a connection to the processes of these names."""
        for name in names:
            if name != self.me.name:
                self._dialing.process(name)

    def has_service(self, peer: ProcessId, service: str) -> bool:
        """Whether the connected peer has this optional service."""
        connection = self.connections.get(peer)
        return connection is not None and connection.identity is not None and service in connection.identity.services

    def forget(self, name: str) -> None:
        """Stop dialing the process and stop reporting its address to peers."""
        log.info("stop dialing %s: it was unreachable for a long time and the group does not need it", name)
        self.book.forget(name)

    # ---- making connections

    def make(self, *, we_dialed: bool, blind: bool = False, stream: str = "") -> PeerConnection:
        """A new, unopened connection. `blind`: the process at the other end is not known. `stream`: its service."""
        handshake = Handshake(
            accepts=not we_dialed,
            key=self.options.key,
            cluster=self.options.cluster,
            identity=PeerIdentity(
                self.me,
                self.boot,
                self.addresses,
                self.group,
                blind,
                dialect=self.dialect,
                services=self.services,
                stream=stream,
            ),
            nonce=secrets.token_bytes(NONCE_LEN),
            seen=self._seen,
            decide=lambda peer: self._decide(peer, we_dialed, stream or peer.stream),
        )
        connection = PeerConnection(self, handshake, self.options.bounds, we_dialed=we_dialed, stream=stream)
        self._strangers.add(connection)
        return connection

    def _accept(self) -> PeerConnection:
        self.counters.accepted += 1
        crowded = sum(not stranger.we_dialed for stranger in self._strangers) >= self.options.bounds.strangers_max
        connection = self.make(we_dialed=False)
        if crowded or self._closing:
            connection.fail(
                HandshakeFailed(CROWD, f"more than {self.options.bounds.strangers_max} connections in handshake")
            )
        else:
            connection.on_accepted()
        return connection

    def of_name(self, name: str) -> PeerConnection | None:
        return next((found for peer, found in self.connections.items() if peer.name == name), None)

    def _decide(self, peer: PeerIdentity, we_dialed: bool, stream: str) -> str:
        """Why this peer is refused on this connection; empty if it is accepted."""
        process, now = peer.process, asyncio.get_running_loop().time()
        if self._closing:
            return "this process is closing"
        if process == self.me:
            return "the process dialed itself"
        if process.name == self.me.name:
            return f"this process is also called {process.name}: names must be unique"
        until = self._ejected.get(process, now)
        if now < until:
            return f"{process} violated the protocol and is refused for {until - now:.1f} s"
        if stream:
            return "" if stream in self.services else f"this process does not have the service {stream[:32]!r}"
        held = self.of_name(process.name)
        if held is None or held.identity is None:
            return ""
        if held.peer != process:
            if now - held.heard_at < MEETING_S:
                return f"another process named {process.name} is connected ({held.peer})"
        elif peer.boot < held.identity.boot:
            return f"a later life of {process} is connected"
        elif peer.boot == held.identity.boot and now - held.opened_at < MEETING_S:
            lower_dialed = (self.me < process) == we_dialed
            if held.we_dialed != we_dialed and not lower_dialed:
                return "these two are connected already, by another connection"
        elif peer.boot == held.identity.boot and peer.blind and not we_dialed and now - held.heard_at < MEETING_S:
            return "these two are connected already"
        return ""

    def eject(self, peer: ProcessId, reason: str) -> None:
        """Disconnect and temporarily refuse a peer that violates the protocol."""
        connection = self.connections.get(peer)
        if connection is not None:
            self.counters.ejected += 1
            connection.fail(HandshakeFailed(GARBAGE, reason))

    # ---- connection events

    def on_opened(self, connection: PeerConnection) -> None:
        self._strangers.discard(connection)
        identity = connection.identity
        assert identity is not None
        if connection.stream:
            assert self.report_streams is not None
            self.report_streams.on_opened(connection)
            return
        peer = identity.process
        held = self.of_name(peer.name)
        if held is not None:
            self._replace(held, identity)
        self.counters.opened += 1
        self.connections[peer] = connection
        if identity.group and not self.group:
            self._adopt_founding(identity.group, connection)
        self._dialing.reached(peer.name)
        news = self.book.learn_own_report(peer.name, identity.addresses)
        self.listener.on_connected(peer)
        if news:
            self._send_addresses()
        else:
            connection.put(self._writer.parts(self.book.all(self.addresses)))
        if self.recoveries:
            connection.put(self._writer.parts(RecoveryNotice(self.recoveries)))

    def _replace(self, held: PeerConnection, newcomer: PeerIdentity) -> None:
        """Replace this connection by a newer one.

        If both belong to the same two lives, no peer was lost: the old one stays open, unread, until the peer has the
        new one too.
        """
        self.counters.replaced += 1
        if held.identity is not None and (held.peer, held.identity.boot) == (newcomer.process, newcomer.boot):
            del self.connections[held.peer]
            self._replaced.add(held)
            held.retire(MEETING_S)
        else:
            held.close(at_once=False)

    def _learn_recoveries(self, past: RecoveryNotice) -> None:
        """Store recoveries that a peer knows and forward them, so that every member knows them."""
        if len(past.recoveries) > RECOVERIES_MAX:
            raise BadFrame(f"{len(past.recoveries)} recoveries; at most {RECOVERIES_MAX} are accepted")
        if any(mark.length > RECOVERY_LEN_MAX for mark in past.recoveries):
            raise BadFrame(f"a recovery of more than {RECOVERY_LEN_MAX} bytes")
        marks = all_recoveries(self.recoveries, past.recoveries)
        if marks != self.recoveries:
            self.recoveries = marks
            log.warning("this group was recovered without a majority, and may have lost entries: %s", marks[-1])
            self.listener.on_recoveries(marks)
            parts = self._writer.parts(RecoveryNotice(marks))
            for connection in self.connections.values():
                connection.put(parts)

    def _adopt_founding(self, group: str, informant: PeerConnection) -> None:
        """Adopt the founding. Drop peers that have none: they must shake hands again, as theirs may be another one."""
        self.group = group
        log.info("belongs to the founding %s of the cluster, as reported by %s", group[:12], informant.peer)
        self.listener.on_founding(group)
        for other in [*self.connections.values(), *self._strangers]:
            if other is not informant and (other.identity is None or not other.identity.group):
                other.close()

    def on_frame(self, connection: PeerConnection, frame: Travelling) -> None:
        if type(frame) is Data:
            if type(frame.body) is not Ack:
                validate_frame(frame.body)
                if not connection.spoke:
                    connection.spoke = True
                    self._spoke.append(connection)
            self.listener.on_received(connection.peer, frame)
        elif isinstance(frame, Addresses):
            if self.book.learn(frame):
                self.keep_connected(self.book.names)
                self._send_addresses()
        elif isinstance(frame, RecoveryNotice):
            self._learn_recoveries(frame)
        else:
            self.listener.on_received(connection.peer, frame)

    def on_closed(self, connection: PeerConnection) -> None:
        self._strangers.discard(connection)
        failed = connection.reason
        if failed is not None:
            self._count_failure(connection, failed)
        if connection.identity is not None and self.connections.get(connection.peer) is connection:
            del self.connections[connection.peer]
            if failed is not None and failed.kind == GARBAGE:
                self._refuse_for_a_while(connection.peer)
            self.book.lost(connection.peer.name)
            self.listener.on_disconnected(connection.peer)
            if not self._closing:
                self._dialing.process(connection.peer.name)

    def on_writable(self, connection: PeerConnection) -> None:
        pass

    def on_disposed(self, connection: PeerConnection) -> None:
        self._replaced.discard(connection)

    def _refuse_for_a_while(self, peer: ProcessId) -> None:
        now = self._loop.time()
        self._ejected = {known: until for known, until in self._ejected.items() if now < until}
        if len(self._ejected) < ADDRESSES_MAX:
            self._ejected[peer] = now + self.options.bounds.ejected_s

    def _count_failure(self, connection: PeerConnection, failed: HandshakeFailed) -> None:
        if connection.identity is None:
            self.counters.handshakes_failed[failed.kind] += 1
            if failed.kind == REFUSED:
                self.refused_last = str(failed)
        now = asyncio.get_running_loop().time()
        if failed.kind not in (REFUSED, BROKEN) and now - self._logged_at.get(failed.kind, -LOG_EVERY_S) >= LOG_EVERY_S:
            self._logged_at[failed.kind] = now
            whose = (
                str(connection.peer) if connection.identity is not None else f"an unknown process at {connection.where}"
            )
            log.warning("closed the connection of %s: %s", whose, failed)

    def _send_addresses(self) -> None:
        parts = self._writer.parts(self.book.all(self.addresses))
        for connection in self.connections.values():
            connection.put(parts)

    # ---- sending

    def send(self, to: tuple[ProcessId, ...], frame: Frame) -> None:
        connections = self.connections
        try:
            parts = self._writer.parts(frame)
        except BadFrame as error:
            log.error("%s; its connections are closed", error)
            for peer in to:
                if peer in connections:
                    connections[peer].close()
            return
        patient = type(frame.body) is Ack if type(frame) is Data else type(frame) is LinkAck
        for peer in to:
            connection = connections.get(peer)
            if connection is not None:
                self.counters.frames_sent += 1
                if not patient or connection.spoke:
                    connection.put(parts)
                else:
                    connection.put(parts, patient=True)
                    if self._patience is None:
                        self._patience = self._loop.call_later(PATIENCE_S, self._flush_patient_frames)

    def _flush_patient_frames(self) -> None:
        self._patience = None
        self._unflushed = list(self.connections.values())
        self.flush()

    def on_read_done(self) -> None:
        """Everything that arrived in one read was handed on: send the responses."""
        self.listener.turn()

    def on_data_queued(self, connection: PeerConnection) -> None:
        self._unflushed.append(connection)

    def flush(self) -> None:
        """Write everything that was sent since the last flush."""
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            if not connection.flush():
                self.counters.closed_unsent += 1
                log.warning("%s does not read: %d bytes are queued for it", connection.peer, connection.unsent_bytes)
                connection.close()

    def answered(self) -> None:
        """All peers that expect a response have it: nothing waits for the disk. Later frames for them may wait."""
        for connection in self._spoke:
            connection.spoke = False
        self._spoke.clear()

    def _close_silent_connections(self) -> None:
        loop = asyncio.get_running_loop()
        now, silence = loop.time(), self.options.bounds.silence_s
        for connection in list(self.connections.values()):
            if now - connection.heard_at > silence:
                self.counters.closed_silent += 1
                log.info("nothing received from %s for %.1f s", connection.peer, silence)
                connection.close()
        self._sweep = loop.call_later(SWEEP_S, self._close_silent_connections)
