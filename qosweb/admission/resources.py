"""Resources that the requests of a node queue for (bandwidth, processor, upstream servers): limits and contention.

A resource is this node (bytes per second) or an upstream server (slots: requests in service at a time). Requests need
one resource out of a pool: any node of the cluster, or any server of their route. The access log, `/status`, metrics
and the dashboard all show `ResourceState`; `Cause` and `LimitSource` are defined only here.
Neighbours: `control` makes the states.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qosweb.engine.replicated.servers import pools_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from qosweb.admission.capacity_meter import CapacityMeter
    from qosweb.engine.engine import Engine
    from qosweb.engine.replicated.server_pool import ServerPool
    from qosweb.engine.replicated.servers import Server

NODES = "nodes"  # the pool of all nodes
SERVERS_MAX = 200


class Cause(enum.StrEnum):
    """The limit for which requests wait."""

    SET = "set"  # set by hand: --capacity, or the slots of a server
    SERVER = "server"  # the slots found for an upstream server
    LINE = "line"  # the outgoing line
    PROCESSOR = "processor"  # of the node


class LimitSource(enum.StrEnum):
    """How a limit was found."""

    SET = "set"  # by hand
    KNEE = "knee"  # by the law for application servers
    LINE = "line"  # by the law for the outgoing line
    MEASURED = "measured"  # by the capacity meter of the node
    DEFAULT = "default"  # not yet


@dataclass(frozen=True, slots=True)
class ResourceState:
    """One resource now. Limit and use are bytes per second for a node, slots for a server."""

    name: str
    kind: str  # node or server
    pool: str
    limit: int
    found: LimitSource
    in_use: int
    waiting: int  # requests that wait for the pool, at all nodes that share it
    cause: Cause | None  # why it is contended; None: it is not
    request_bytes: int = 0  # of a node: cost of a request in addition to its body


@dataclass(frozen=True, slots=True)
class ProcessorShortage:
    """Requests wait for the processor of the node."""

    capacity_bps: int  # that it can do; 0: not known yet
    waiting: int


def pool_name(servers: Collection[str]) -> str:
    return "+".join(servers)


def resources_of(
    engine: Engine,
    meter: CapacityMeter,
    slots_set: Collection[str],
    request_bytes: int,
    processor: ProcessorShortage | None = None,
) -> Iterator[ResourceState]:
    """The resources of this node: itself, and the upstream servers of its routes.

    `slots_set`: names of the servers whose slots are set by hand. `processor`: None if it is not short.
    """
    yield _node(engine, meter, request_bytes, processor)
    seen: set[str] = set()
    for key in pools_of(engine.me.name, engine.upstreams):
        pool = engine.machine.servers.pools.get(key)
        if pool is None:
            continue
        for name, server in pool.servers.items():
            if name not in seen and len(seen) < SERVERS_MAX:
                seen.add(name)
                yield _server(pool, name, server, is_set=name.partition("@")[0] in slots_set)


def _node(
    engine: Engine, meter: CapacityMeter, request_bytes: int, processor: ProcessorShortage | None
) -> ResourceState:
    pipe = engine.machine.pipes.get(engine.me)
    is_line = meter.line_bps is not None and meter.capacity_bps == meter.line_bps
    found = LimitSource.LINE if is_line else LimitSource.MEASURED if meter.by_hand_bps is None else LimitSource.SET
    limit, waiting = engine.report.capacity_bps, engine.pipe_queue.waiting
    cause: Cause | None = None
    if processor is not None:
        cause = Cause.PROCESSOR  # wins over the other causes
        limit, waiting = processor.capacity_bps or limit, waiting + processor.waiting
        found = LimitSource.MEASURED
    elif is_line:
        cause = Cause.LINE
    elif engine.pipe_queue.waits_for_room:
        cause = Cause.SET if found is LimitSource.SET else Cause.PROCESSOR
    return ResourceState(
        engine.me.name,
        "node",
        NODES,
        limit,
        found,
        0 if pipe is None else pipe.used_bps,
        waiting,
        cause,
        request_bytes,
    )


def _server(pool: ServerPool, name: str, server: Server, *, is_set: bool) -> ResourceState:
    """The limit is the level of the law, without its short dips."""
    limit = min(server.level, server.slots_max) if server.level else server.slots_max
    is_bound = is_set and limit >= server.slots_max
    found = LimitSource.SET if is_bound else LimitSource.KNEE if server.level else LimitSource.DEFAULT
    is_contended = pool.is_contended and not server.is_out
    cause = None if not is_contended else Cause.SET if is_bound else Cause.SERVER
    return ResourceState(
        name, "server", pool_name(pool.key), limit, found, len(server.uses), len(pool.waiting), cause
    )  # fmt: skip
