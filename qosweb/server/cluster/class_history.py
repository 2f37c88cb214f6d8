"""Class history: shares, queue lengths and waiting times of the last ten minutes, for the charts of the dashboard.

Every node keeps its own, in memory, about the whole cluster. A fixed ring of samples: at most CLASSES_MAX classes with
KEPT samples of four numbers. A sample has the number of its interval, so that a node that was stalled shows a gap.
Neighbours: `live_figures` calls `observe`; `server/admin` shows it.
"""

from __future__ import annotations

from array import array
from math import isnan, nan
from typing import TYPE_CHECKING

from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.server.cluster.live_figures import LiveNode
    from qosweb.server.process.node import Node

EVERY_S = 2.0
KEPT = 300  # ten minutes
CLASSES_MAX = 100
QUANTITIES = ("share", "promised", "waiting", "wait_p99_ms")


class ClassHistory:
    """The last KEPT samples of each class."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._began: float | None = None
        self._wall = 0.0  # when the last sample was taken, in seconds since 1970
        self._rings: dict[str, tuple[array[float], ...]] = {}  # of each class, one ring for each of QUANTITIES
        self.number = 0  # of the last sample; the first is 1

    def observe(self, now: float, nodes: dict[str, LiveNode]) -> bool:
        """Take a sample if it is time for one; return whether it was. `now` is of the monotonic clock."""
        if self._began is None:
            self._began = now - EVERY_S
        number = int((now - self._began) / EVERY_S)
        if number <= self.number:
            return False
        self._wall = self._node.clock.wall(self._node.clock.read())
        self._sample(number, nodes)
        return True

    def since(self, after: int) -> dict[str, object]:
        """The samples after number `after`, as JSON. A number that this node has not reached means another life."""
        after = after if after <= self.number else 0
        first = max(after, self.number - KEPT) + 1
        return {
            "life": self._node.started_at,
            "every_s": EVERY_S,
            "kept": KEPT,
            "first": first,
            "number": self.number,
            "at": self._wall,
            "classes": {
                name: {
                    quantity: [_shown(ring[number % KEPT]) for number in range(first, self.number + 1)]
                    for quantity, ring in zip(QUANTITIES, rings, strict=True)
                }
                for name, rings in self._rings.items()
            },
        }

    def _sample(self, number: int, nodes: dict[str, LiveNode]) -> None:
        missed = range(max(self.number, number - KEPT) + 1, number)
        self.number = number
        engine = self._node.admission.engine
        if engine is None:
            return
        machine, got_bps = engine.machine, engine.recent_starts_bps()
        capacity_bps, always = machine.capacity_bps, machine.scheduler.bound.always
        accounts = self._node.admission.accounts.accounts[:CLASSES_MAX]
        self._rings = {one.name: self._rings.get(one.name) or _new_rings() for one in accounts}
        for one in accounts:
            which = one.number
            waits = [
                of.wait_p99_ms
                for live in nodes.values()
                if (of := live.figures.classes.get(one.name)) is not None and of.wait_p99_ms is not None
            ]
            values = (
                got_bps[which] / capacity_bps if capacity_bps else 0.0,
                nan if always[which] else machine.promised[which] / PPM,
                machine.classes[which].waiting,
                max(waits, default=nan),
            )
            for ring, value in zip(self._rings[one.name], values, strict=True):
                for gap in missed:
                    ring[gap % KEPT] = nan
                ring[number % KEPT] = value


def _new_rings() -> tuple[array[float], ...]:
    return tuple(array("f", [nan]) * KEPT for _ in QUANTITIES)


def _shown(value: float) -> float | None:
    return None if isnan(value) else round(value, 4)
