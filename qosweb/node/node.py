"""A node: everything that one ``qosweb serve`` consists of, put together, started and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp.base_protocol import BaseProtocol

from qosweb.errors import UsageError
from qosweb.node.channels import Channels
from qosweb.node.clock import Clock
from qosweb.node.connection import Connection
from qosweb.node.connections import Connections
from qosweb.node.files import Root
from qosweb.node.gate import OpenGate, PacedGate
from qosweb.node.heads import HeadLimits
from qosweb.node.hub import Hub, Limits, OpenFiles
from qosweb.node.labels import Labels
from qosweb.node.ledger import Ledger
from qosweb.node.logfile import LogFile
from qosweb.node.meter import Meter
from qosweb.node.pacing import Pacer
from qosweb.node.plain import PlainHeads
from qosweb.node.policy import Policy
from qosweb.node.stages import Site
from qosweb.node.store import PageStore
from qosweb.node.tls import TlsFiles
from qosweb.node.tlsdoor import TlsListener
from qosweb.node.upstream import Upstreams
from qosweb.tools.files import load

if TYPE_CHECKING:
    from qosweb.settings import ServeSettings
    from qosweb.units import Address

BACKLOG = 2048
SWEEP_EVERY_S = 0.5
FLUSH_EVERY_S = 0.2
LINKS_EVERY_S = 1.0  # how soon a changed page's links are known
LINKS_REST = 20  # times what looking at the files took, if that is longer: a large site is looked at less often
LOG_CLOSE_S = 5.0
MEASURE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Listening:
    url: str
    address: str


class Node:
    """Needs a running event loop. ``start``, then ``drain`` or ``abort``, then ``close``."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.name = settings.name or _host_name()
        self.clock = Clock()
        self.started_at = self.clock.wall(self.clock.read())
        self.store = PageStore(
            _root(settings.root),
            index=settings.index,
            memory_max=settings.cache_size,
            file_max=settings.cache_file_max,
            fresh_s=settings.cache_fresh,
        )
        self.tls = None
        if settings.tls_cert is not None and settings.tls_key is not None:
            self.tls = TlsFiles(settings.tls_cert, settings.tls_key)
        self.log = _log_file(settings)
        self.policy = Policy(self._labels())
        self.gate = OpenGate() if settings.capacity is None else PacedGate(Channels(self.policy, settings.capacity))
        self.ledger = Ledger(self.clock, self.name, self.log, settings.access_log_format, self.policy)
        self.connections = Connections(
            total_max=settings.max_connections, per_client_max=settings.max_connections_per_client
        )
        self.open_files = OpenFiles(settings.max_open_files)
        self._loop = asyncio.get_running_loop()
        self.pacer = Pacer(self._loop)
        self.meter = Meter(settings.capacity)
        self.upstreams = Upstreams(settings.upstream_timeout)
        self._hub = Hub(
            self._loop,
            Site(
                self.store,
                self.gate,
                self.clock,
                self.policy,
                self.meter,
                is_secure=self.tls is not None,
                upstream=settings.upstream,
            ),
            self.ledger,
            self.connections,
            Limits(
                HeadLimits(settings.max_request_line, settings.max_header_size, settings.max_headers),
                header_timeout_s=settings.header_timeout,
                idle_timeout_s=settings.idle_timeout,
                send_timeout_s=settings.send_timeout,
            ),
            self.open_files,
            PlainHeads(),
            BaseProtocol(self._loop),
            self.pacer,
            self.upstreams,
            self.name,
            self._report_fault,
        )
        self.faults = 0
        self._server: asyncio.Server | TlsListener | None = None
        self._chores: list[asyncio.Task[None]] = []

    async def start(self) -> Listening:
        listener = bind(self.settings.listen, "--listen")
        address = address_of(listener)
        self.ledger.announce_policy()
        if self.tls is not None:
            self._server = TlsListener(self._hub, self.tls, listener)
        else:
            self._server = await self._loop.create_server(lambda: Connection(self._hub), sock=listener, backlog=BACKLOG)
        await asyncio.to_thread(self.policy.labels.refresh_links, self.store.root.path)
        self._chores = [
            asyncio.create_task(self._sweep(), name="sweep"),
            asyncio.create_task(self._flush(), name="flush"),
            asyncio.create_task(self._follow_links(), name="links"),
            asyncio.create_task(self._measure(), name="measure"),
        ]
        return Listening(f"{'http' if self.tls is None else 'https'}://{address}/", address)

    @property
    def draining(self) -> bool:
        return self.connections.draining

    def reload(self) -> None:
        """Look at everything on disk anew: root, pages, specification, certificate.

        Raises UsageError, and then changes nothing.
        """
        root = _root(self.settings.root)  # a link may lead to another release now
        labels = self._labels()
        if self.tls is not None:
            self.tls.reload()
        self.store.start_over(root)
        self._hub.plain_heads.forget()
        self.policy.change(labels)
        self.ledger.policy_changed()
        self.connections.forget_log_parts()

    def reopen_logs(self) -> None:
        self.ledger.reopen()

    async def drain(self, grace_s: float) -> bool:
        """No new connections; requests in service may end within the time. True if all of them did."""
        if self._server is not None:
            self._server.close()
        self.connections.drain()
        try:
            await asyncio.wait_for(self.connections.emptied.wait(), grace_s)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """End what is left, and write the last line of the log."""
        if self._server is not None:
            self._server.close()
        self.connections.abort()
        await asyncio.sleep(0)  # lets the connections end and be written down
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self.upstreams.close()
        self.store.close()
        self.ledger.close(LOG_CLOSE_S)

    def _report_fault(self, error: Exception) -> None:
        self.faults += 1
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        say(f"internal fault: {type(error).__name__} at {place}: {error}; the connection was closed")

    def _labels(self) -> Labels:
        if self.settings.spec is None:
            return Labels(self.clock)
        built = load(str(self.settings.spec))
        return Labels(self.clock, built.model, self.settings.index, built.source.text)

    async def _follow_links(self) -> None:
        while True:
            began = self._loop.time()
            await asyncio.to_thread(self.policy.labels.refresh_links, self.store.root.path)
            await asyncio.sleep(max(LINKS_EVERY_S, LINKS_REST * (self._loop.time() - began)))

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            await asyncio.to_thread(self.meter.watch.look)
            self.meter.tell_plain(self.ledger)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            self.connections.sweep(self.clock.read())

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            self.ledger.flush()


def bind(address: Address, option: str) -> socket.socket:
    """A bound socket; a clear error if that cannot be."""
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise UsageError(f"{option} {address}: no such host") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(name)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        hint = f"; choose another with {option} HOST:PORT" if error.errno == errno.EADDRINUSE else ""
        raise UsageError(f"{option} {address}: {error.strerror}{hint}") from None
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _root(path: Path) -> Root:
    try:
        next(path.iterdir(), None)
        return Root(path)
    except FileNotFoundError:
        raise UsageError(f"--root {path}: there is no such folder") from None
    except NotADirectoryError:
        raise UsageError(f"--root {path}: not a folder") from None
    except OSError as error:
        raise UsageError(f"--root {path}: {error.strerror}") from None


def _log_file(settings: ServeSettings) -> LogFile | None:
    if settings.access_log == "none":
        return None
    path = None if settings.access_log == "-" else Path(settings.access_log)
    if path is not None and path.resolve().is_relative_to(settings.root.resolve()):
        raise UsageError(f"--access-log {path}: lies under --root, where everybody could read it; choose another place")
    try:
        return LogFile(path, rotate_bytes=settings.access_log_rotate, keep=settings.access_log_keep)
    except OSError as error:
        raise UsageError(f"--access-log {settings.access_log}: {error.strerror}") from None


def _host_name() -> str:
    kept = "".join(c for c in socket.gethostname() if c.isascii() and (c.isalnum() or c in "-_."))
    return kept[:64] or "node"


def say(message: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it; that is no reason to stop
        print(f"qosweb: {message}", file=sys.stderr, flush=True)
