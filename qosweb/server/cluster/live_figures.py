"""Live figures: each node reports its figures several times a second, and knows those of all nodes.

A node that is stalled delays nobody: figures that became obsolete are not sent to it (`cluster.Reports`).
Neighbours: `node_figures` computes them, `class_history` keeps some of them; `server/admin` shows them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from cluster import NotDelivered, Reports, ReportsFull
from qosweb.server.cluster.change_watch import ChangeWatch
from qosweb.server.cluster.class_history import ClassHistory
from qosweb.server.cluster.node_figures import FiguresMeter, NodeFigures

if TYPE_CHECKING:
    from cluster import ReportChange
    from qosweb.server.process.node import Node

EVERY_S = 0.1
FIGURES = "figures"  # the item of the reports
GONE_S = 60.0  # how long a node that left is shown

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NodeFigures).decode


class LiveNode(NamedTuple):
    """The last figures of a node, and when they were measured, by the monotonic clock of this process."""

    figures: NodeFigures
    born: float

    @property
    def age_s(self) -> float:
        return max(0.0, time.monotonic() - self.born)


class LiveFigures:
    """The figures of all nodes, as this node knows them."""

    def __init__(self, node: Node, *, is_member: bool) -> None:
        self.reports = Reports() if is_member else None
        self.refused = 0  # own figures that could not be published
        self._name = node.name
        self._meter = FiguresMeter(node)
        self.history = ClassHistory(node)
        self._changes = ChangeWatch(node)
        self._nodes: dict[str, LiveNode] = {}
        if self.reports is not None:
            self.reports.on_change(self._on_change)

    @property
    def nodes(self) -> dict[str, LiveNode]:
        """By name: this node, and all others that reported within the last minute."""
        self._nodes = {name: one for name, one in self._nodes.items() if one.age_s < GONE_S}
        return self._nodes

    async def run(self) -> None:
        """Measure and publish for ever."""
        while True:
            self.publish()
            await asyncio.sleep(EVERY_S)

    def publish(self) -> None:
        now = time.monotonic()
        figures = self._meter.measure(now)
        self._nodes[self._name] = LiveNode(figures, now)
        if self.reports is not None:
            try:
                self.reports.publish(FIGURES, _encode(figures))
            except (NotDelivered, ReportsFull, ValueError):
                self.refused += 1  # the next ones may pass
        if self.history.observe(now, self._nodes):
            self._changes.observe()

    def _on_change(self, change: ReportChange) -> None:
        if change.item != FIGURES or change.sender == self._name:
            return
        try:
            figures = _decode(change.value)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return  # of a version that reports something else
        self._nodes[change.sender] = LiveNode(figures, time.monotonic() - change.age_s)
