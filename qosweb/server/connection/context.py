"""Connection context: limits and services that all connections of a node share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qosweb.http.forwarded import TrustedNetworks
    from qosweb.http.request_heads import RequestHeads
    from qosweb.server.accesslog.recorder import AccessRecorder
    from qosweb.server.connection.client_share import SharedPlaces
    from qosweb.server.connection.connections import Connections
    from qosweb.server.connection.fast_path import PlainHeads
    from qosweb.server.connection.head_parser import HeadLimits
    from qosweb.server.pacing.send_pacer import SendPacer
    from qosweb.server.proxy.forward_head import ForwardHeads
    from qosweb.server.proxy.upstream import Upstreams
    from qosweb.server.request.error_pages import ErrorPages
    from qosweb.server.request.stages import RequestServices


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    head: HeadLimits
    header_timeout_s: float
    idle_timeout_s: float
    send_timeout_s: float


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """Services that all connections of a node share."""

    loop: asyncio.AbstractEventLoop
    services: RequestServices
    recorder: AccessRecorder
    connections: Connections
    limits: ConnectionLimits
    open_files: SharedPlaces  # responses being sent from disk
    plain_heads: PlainHeads
    forward_heads: ForwardHeads
    request_heads: RequestHeads
    pacer: SendPacer | None  # None: responses are not paced
    upstreams: Upstreams
    name: str  # of the node
    report_fault: Callable[[Exception], None]
    trusted: TrustedNetworks  # of the proxies in front of this node
    error_pages: ErrorPages
    proto: str  # of the clients: http or https
