"""What all connections of a node share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp.base_protocol import BaseProtocol

    from qosweb.node.connections import Connections
    from qosweb.node.heads import HeadLimits
    from qosweb.node.ledger import Ledger
    from qosweb.node.pacing import Pacer
    from qosweb.node.plain import PlainHeads
    from qosweb.node.stages import Site
    from qosweb.node.upstream import Upstreams


@dataclass(slots=True)
class OpenFiles:
    """How many answers are sent from disk now."""

    most: int
    now: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    head: HeadLimits
    header_timeout_s: float
    idle_timeout_s: float
    send_timeout_s: float


@dataclass(frozen=True, slots=True)
class Hub:
    """What all connections of a node share."""

    loop: asyncio.AbstractEventLoop
    site: Site
    ledger: Ledger
    connections: Connections
    limits: Limits
    open_files: OpenFiles
    plain_heads: PlainHeads
    body_flow: BaseProtocol  # what the parser wants to slow down when a body comes too fast; none is ever read
    pacer: Pacer
    upstreams: Upstreams
    name: str  # of the node
    report_fault: Callable[[Exception], None]
