"""What a node says of itself to its cluster: what it can deliver, its load, and how its clock stands.

Said anew when one of these is not about what was said last, or when conditions on time are to be looked at.
Neighbours: `capacity_meter` measures; `engine.report_capacity` takes it; a node and the middleware's doorkeeper both
report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.entries import NodeReport
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.admission.capacity_meter import CapacityMeter
    from qosweb.admission.clock import Clock
    from qosweb.admission.engine_driver import EngineDriver

NEWS = 10  # a change by a tenth is one
WALL_NEWS_MS = 500
BIND_EVERY_MS = 1_000  # conditions are looked at so often where nothing else happens


class CapacityReporter:
    def __init__(self, room: EngineDriver, meter: CapacityMeter, clock: Clock) -> None:
        self._room = room
        self._meter = meter
        self._clock = clock

    def wall_ms(self) -> int:
        """How the clock stands to the cluster's time."""
        room, clock = self._room, self._clock
        ahead_ms = room.engine.time_ms - room.engine.now_ms
        return int(clock.wall(clock.read()) * 1000) - room.now_ms() - ahead_ms

    def report(self, url: str = "", *, anew: bool = False) -> None:
        """`url` is where clients reach this node, if others may send them here."""
        engine = self._room.engine
        told, load_ppm, wall_ms = engine.report, self._meter.watch.latest.cpu_ppm, self.wall_ms()
        capacity = max(1, self._meter.capacity_bps)
        if (
            not anew
            and abs(capacity - told.capacity_bps) * NEWS < told.capacity_bps
            and abs(load_ppm - told.load_ppm) * NEWS < PPM
            and abs(wall_ms - told.wall_ms) < WALL_NEWS_MS
            and not engine.machine.law.binds_anew(engine.machine.bound_ms, engine.time_ms - BIND_EVERY_MS)
        ):
            return
        engine.now_ms = self._room.now_ms()
        engine.report_capacity(NodeReport(capacity, load_ppm, wall_ms, url))
        self._room.poke()
