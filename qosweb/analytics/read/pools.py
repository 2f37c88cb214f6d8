"""Pools of resources over time, from ``resource`` event lines: when each was contended, and the cause. Pure.

A request needs one resource out of its pool: any node, or any upstream server of its route. Logs without such events
have no pools; then all requests are judged together, by their bytes.
Neighbours: ``window_parts`` divides the requests by pool; ``verdicts`` judges the shares in each pool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qosweb.analytics.read.rows import LogEvent

NODES = "nodes"  # the pool of all nodes
SLOT_US = 1_000_000  # work of one slot in a second


class ResourceSpan(NamedTuple):
    """State of a resource between two of its events."""

    begin_s: float
    limit: int
    cause: str  # empty: not contended


class Pools:
    """All pools of the logs."""

    def __init__(self, events: Iterable[LogEvent] = ()) -> None:
        self._pool_of: dict[str, str] = {}
        self._spans: dict[str, dict[tuple[str, str], list[ResourceSpan]]] = {}  # by pool, then by writer and resource
        self.request_bytes: int | None = None  # cost of a request at a node in addition to its body
        for event in sorted((one for one in events if one.kind == "resource"), key=lambda one: one.ts):
            self._pool_of[event.resource] = self._pool_of[event.pool] = event.pool
            of_pool = self._spans.setdefault(event.pool, {})
            span = ResourceSpan(event.ts, event.limit, event.cause)
            of_pool.setdefault((event.writer, event.resource), []).append(span)
            if event.pool == NODES:
                self.request_bytes = event.request_bytes

    def __bool__(self) -> bool:
        return bool(self._spans)

    def pool_of(self, resource: str) -> str:
        """The pool of a server, or that name itself; a request without one used the node."""
        return self._pool_of.get(resource, resource) if resource else NODES

    def cause(self, pool: str, begin_s: float, end_s: float) -> str:
        """Why the pool was contended at some time within these, most often; empty if it was not."""
        found: Counter[str] = Counter()
        for spans in self._spans.get(pool, {}).values():
            found.update(span.cause for span in _within(spans, begin_s, end_s) if span.cause)
        return max(sorted(found), key=lambda one: found[one]) if found else ""

    def slots(self, pool: str, begin_s: float, end_s: float) -> int:
        """The largest number of slots of all servers of the pool together."""
        most: dict[str, int] = {}
        for (_, resource), spans in self._spans.get(pool, {}).items():
            limits = [span.limit for span in _within(spans, begin_s, end_s)]
            most[resource] = max([most.get(resource, 0), *limits])
        return sum(most.values())


def _within(spans: list[ResourceSpan], begin_s: float, end_s: float) -> list[ResourceSpan]:
    """The spans that cover some of this time."""
    first = bisect_right(spans, begin_s, key=lambda span: span.begin_s)
    last = bisect_right(spans, end_s, key=lambda span: span.begin_s)
    return spans[max(0, first - 1) : last] if last else []
