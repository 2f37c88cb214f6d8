"""Figures of a node that all nodes of its cluster show: capacity, load, demand and latency by class, upstream health.

They are for people and monitoring. What scheduling decisions depend on goes through the total order.
Neighbours: `live_figures` exchanges them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING

import msgspec

from qosweb.admission.class_accounts import SERVICE_BUCKETS_S
from qosweb.server.admin.status import scope_of
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.admission import ClassAccount
    from qosweb.server.process.node import Node

CLASSES_MAX = 100  # classes with the most requests, in the figures of a node
UPSTREAMS_MAX = 50
RATE_S = 1.0  # rates are of this time
LATENCY_S = 10.0  # percentiles are of this time
NAME_LEN_MAX = 200


class ClassFigures(msgspec.Struct, frozen=True):
    """Requests of one class at one node."""

    served_per_s: float = 0.0
    denied_per_s: float = 0.0
    bytes_per_s: int = 0
    in_service: int = 0
    waiting: int = 0
    wait_p99_ms: float | None = None  # of the requests that started or gave up in the last ten seconds
    service_p99_ms: float | None = None


class UpstreamFigures(msgspec.Struct, frozen=True):
    """An upstream server, as one node sees it."""

    health: str
    reason: str = ""
    in_service: int = 0
    waiting: int = 0


class NodeFigures(msgspec.Struct, frozen=True):
    """All figures of one node."""

    capacity_bytes_per_s: int = 0
    capacity_source: str = ""  # "measured", or "set" with --capacity
    load: float = 0.0
    scope: str = ""
    draining: bool = False
    connections: int = 0
    in_service: int = 0
    waiting: int = 0
    served_per_s: float = 0.0
    classes: dict[str, ClassFigures] = {}
    upstreams: dict[str, UpstreamFigures] = {}


class _Counts:
    """Counters of a class at one time."""

    __slots__ = ("at", "bytes_sent", "denied", "served", "service", "wait")

    def __init__(self, account: ClassAccount, now: float) -> None:
        self.at = now
        self.served = account.served
        self.denied = account.decisions.get("denied", 0)
        self.bytes_sent = account.bytes_sent
        self.wait = account.waits
        self.service = list(account.service_counts)


class FiguresMeter:
    """Computes the figures of this node, several times a second."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._seen: dict[str, deque[_Counts]] = {}  # of each class, over LATENCY_S

    def measure(self, now: float) -> NodeFigures:
        node = self._node
        engine, meter = node.admission.engine, node.admission.meter
        accounts = node.admission.accounts.accounts
        self._seen = {account.name: self._seen.get(account.name, deque()) for account in accounts}
        classes = {account.name: self._class(account, now) for account in accounts}
        busy = sorted(classes, key=lambda name: (-classes[name].waiting, -classes[name].served_per_s))[:CLASSES_MAX]
        return NodeFigures(
            capacity_bytes_per_s=0 if engine is None else engine.report.capacity_bps,
            capacity_source="" if engine is None else "measured" if meter.by_hand_bps is None else "set",
            load=round(meter.sampler.latest.cpu_ppm / PPM, 3),
            scope=scope_of(node),
            draining=node.draining,
            connections=len(node.connections),
            in_service=node.admission.in_service,
            waiting=sum(one.waiting for one in classes.values()),
            served_per_s=round(sum(one.served_per_s for one in classes.values()), 1),
            classes={name: classes[name] for name in classes if name in busy and len(name) <= NAME_LEN_MAX},
            upstreams={
                one.name: UpstreamFigures(
                    one.health.state.value, one.health.reason[:NAME_LEN_MAX], one.in_service, one.waiting
                )
                for one in node.upstreams.servers[:UPSTREAMS_MAX]
            },
        )

    def _class(self, account: ClassAccount, now: float) -> ClassFigures:
        seen, latest = self._seen[account.name], _Counts(account, now)
        seen.append(latest)
        while len(seen) > 2 and seen[1].at <= now - LATENCY_S:
            seen.popleft()
        then = next((one for one in reversed(seen) if one.at <= now - RATE_S), seen[0])
        seconds = max(now - then.at, 1e-3)
        return ClassFigures(
            served_per_s=round((latest.served - then.served) / seconds, 1),
            denied_per_s=round((latest.denied - then.denied) / seconds, 1),
            bytes_per_s=round((latest.bytes_sent - then.bytes_sent) / seconds),
            in_service=account.in_service,
            waiting=self._waiting(account.number),
            wait_p99_ms=percentile_ms(seen[0].wait, latest.wait, 0.99),
            service_p99_ms=percentile_ms(seen[0].service, latest.service, 0.99),
        )

    def _waiting(self, number: int) -> int:
        """Waiting requests of this node in the class."""
        engine = self._node.admission.engine
        if engine is None or number >= len(engine.machine.classes):
            return 0
        return len(engine.machine.classes[number].queues.get(engine.me, ()))


def percentile_ms(before: list[int], now: list[int], part: float) -> float | None:
    """The bound of the bucket below which this part of the new values is; None without new values."""
    if now == before:
        return None
    up_to = list(accumulate(map(sub, now, before)))
    bucket = bisect_left(up_to, part * up_to[-1])
    return round(1e3 * SERVICE_BUCKETS_S[bucket], 2) if bucket < len(SERVICE_BUCKETS_S) else 1e3 * SERVICE_BUCKETS_S[-1]
