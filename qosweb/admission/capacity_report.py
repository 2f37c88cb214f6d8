"""Capacity reports: a node reports its capacity, load and clock to its cluster.

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
BIND_EVERY_MS = 1_000  # conditions on time are evaluated at least this often


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
        """Report if a value has changed noticeably, or in any case if `anew`. Other nodes redirect clients to `url`."""
        engine = self._driver.engine
        last, load_ppm, wall_ms = engine.report, self._meter.sampler.latest.cpu_ppm, self.wall_ms()
        capacity = max(1, self._meter.capacity_bps)
        if (
            not anew
            and abs(capacity - last.capacity_bps) * NOTICEABLE < last.capacity_bps
            and abs(load_ppm - last.load_ppm) * NOTICEABLE < PPM
            and abs(wall_ms - last.wall_ms) < WALL_NOTICEABLE_MS
            and not engine.machine.policy.binds_anew(engine.machine.bound_ms, engine.time_ms - BIND_EVERY_MS)
        ):
            return
        engine.now_ms = self._driver.now_ms()
        engine.report_capacity(NodeReport(capacity, load_ppm, wall_ms, url))
        self._driver.poke()
