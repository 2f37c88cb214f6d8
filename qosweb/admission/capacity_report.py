"""Capacity reports: what a node tells its cluster about its capacity, its load and its clock.

A report is sent when one of the three has changed noticeably, or when the policy's conditions on time are due.
Neighbours: `capacity_meter` measures; `Engine.report_capacity` takes the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.entries import NodeReport
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.admission.capacity_meter import CapacityMeter
    from qosweb.admission.clock import Clock
    from qosweb.admission.engine_driver import EngineDriver

NOTICEABLE = 10  # a change by a tenth
WALL_NOTICEABLE_MS = 500
BIND_EVERY_MS = 1_000  # conditions are evaluated at least so often where nothing else happens


class CapacityReporter:
    def __init__(self, driver: EngineDriver, meter: CapacityMeter, clock: Clock) -> None:
        self._driver = driver
        self._meter = meter
        self._clock = clock

    def wall_ms(self) -> int:
        """The wall clock less the cluster's time."""
        driver, clock = self._driver, self._clock
        ahead_ms = driver.engine.time_ms - driver.engine.now_ms
        return int(clock.wall(clock.read()) * 1000) - driver.now_ms() - ahead_ms

    def report(self, url: str = "", *, anew: bool = False) -> None:
        """Report if needed, or `anew` in any case. `url` is where clients of other nodes may be sent to."""
        engine = self._driver.engine
        told, load_ppm, wall_ms = engine.report, self._meter.sampler.latest.cpu_ppm, self.wall_ms()
        capacity = max(1, self._meter.capacity_bps)
        if (
            not anew
            and abs(capacity - told.capacity_bps) * NOTICEABLE < told.capacity_bps
            and abs(load_ppm - told.load_ppm) * NOTICEABLE < PPM
            and abs(wall_ms - told.wall_ms) < WALL_NOTICEABLE_MS
            and not engine.machine.law.binds_anew(engine.machine.bound_ms, engine.time_ms - BIND_EVERY_MS)
        ):
            return
        engine.now_ms = self._driver.now_ms()
        engine.report_capacity(NodeReport(capacity, load_ppm, wall_ms, url))
        self._driver.poke()
