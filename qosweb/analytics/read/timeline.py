"""Cluster members and capacity over time, reconstructed from event lines. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qosweb.analytics.read.rows import LogEvent


CHANGED = 0.1  # of a capacity: smaller changes are measurement noise


class ClusterMeans(NamedTuple):
    """Number of nodes and capacity for a period; None if unknown, or not requested."""

    nodes: int | None = None
    capacity_bps: int | None = None

    def differs(self, other: ClusterMeans) -> bool:
        ours, theirs = self.capacity_bps, other.capacity_bps
        if self.nodes != other.nodes or (ours is None) != (theirs is None):
            return True
        return ours is not None and theirs is not None and abs(ours - theirs) > CHANGED * max(ours, theirs)


class Timeline:
    """Without view events, the members are the nodes that wrote lines, at all times."""

    def __init__(self, events: Iterable[LogEvent], nodes: Iterable[str] = ()) -> None:
        self._nodes = frozenset(nodes)
        in_order = sorted(events, key=lambda event: (event.ts, event.node))
        self._views: list[tuple[float, frozenset[str]]] = []
        self._capacities: dict[str, list[tuple[float, int]]] = {}
        self.changes: list[float] = []  # when the number of members or a capacity changed
        for event in in_order:
            if event.kind == "view" and event.primary:
                members = frozenset(event.members)
                if not self._views or self._views[-1][1] != members:
                    self._views.append((event.ts, members))
                    self.changes.append(event.ts)
            elif event.kind == "capacity" and event.capacity_bps > 0:
                self._capacities.setdefault(event.node, []).append((event.ts, event.capacity_bps))
                self.changes.append(event.ts)

    def members(self, at_s: float) -> frozenset[str]:
        """The members at a time; before the first view those of the first view."""
        if not self._views:
            return self._nodes
        place = bisect_right(self._views, at_s, key=lambda view: view[0])
        return self._views[max(0, place - 1)][1]

    def nodes(self, begin_s: float, end_s: float) -> tuple[int, int]:
        """The smallest and the largest number of members between two times."""
        counts = [len(self.members(at_s)) for at_s in self._moments(begin_s, end_s)]
        return max(1, min(counts)), max(1, max(counts))

    def capacity(self, begin_s: float, end_s: float, scope: str = "") -> tuple[int, int] | None:
        """The smallest and the largest capacity of the cluster, or of one node; None if that of a node is unknown."""
        found: list[int] = []
        for at_s in self._moments(begin_s, end_s):
            of_nodes = [self._of_node(node, at_s) for node in ([scope] if scope else self.members(at_s))]
            known = [capacity for capacity in of_nodes if capacity is not None]
            if not known or len(known) < len(of_nodes):
                return None
            found.append(sum(known))
        return min(found), max(found)

    def steps(self, *, nodes: bool, capacity: bool) -> list[tuple[float, ClusterMeans]]:
        """Times at which the number of members or the capacity changed, with the new values; only those requested.

        The first entry also covers the time before it. A capacity changed if it differs by more than ``CHANGED``.
        """
        found: list[tuple[float, ClusterMeans]] = []
        for at_s in self.changes or [0.0]:
            known = self.capacity(at_s, at_s) if capacity else None
            now = ClusterMeans(len(self.members(at_s)) if nodes else None, known[0] if known else None)
            if not found or found[-1][1].differs(now):
                found.append((at_s, now))
        return found

    def _of_node(self, node: str, at_s: float) -> int | None:
        """The capacity of a node; before its first report the first reported value."""
        said = self._capacities.get(node)
        if not said:
            return None
        return said[max(0, bisect_right(said, at_s, key=lambda one: one[0]) - 1)][1]

    def _moments(self, begin_s: float, end_s: float) -> list[float]:
        first, last = bisect_right(self.changes, begin_s), bisect_left(self.changes, end_s)
        return [begin_s, *self.changes[first:last]]
