"""Capacity meter: estimates this node's capacity from its requests (`qosweb.engine.local.capacity`).

A request outside the fast path is metered from its start to its end. A request that was paced, that failed, or that
waited for its client or another server does not measure the node: it only counts towards the concurrency. Requests on
the fast path are not metered individually: their sums are observed once a second.

The meter cannot see a network link that is slower than the node: a slow client and a slow link look alike. Where the
link is the bottleneck, set ``--capacity``.
Paper: section 3.1.
"""

from __future__ import annotations

from qosweb.admission.machine_load import MachineLoadSampler
from qosweb.engine.local.capacity import Concurrency, ResourceModel

ALONE = 1000  # thousandths: a request on the fast path has the event loop to itself

Mark = tuple[float, float]  # when a request entered service, and the integral of concurrency until then


class CapacityMeter:
    def __init__(self, by_hand_bps: int | None) -> None:
        """`by_hand_bps` is the capacity that the operator has set, if any."""
        self.sampler = MachineLoadSampler()
        self.model = ResourceModel()
        self.by_hand_bps = by_hand_bps
        self.line_bps: int | None = None  # of the outgoing line, while it is short
        self._concurrency = Concurrency()
        self._fast_path = 0, 0, 0.0  # requests, bytes and seconds that were observed

    @property
    def capacity_bps(self) -> int:
        if self.by_hand_bps is not None:
            capacity_bps = self.by_hand_bps
        else:
            capacity_bps = self.model.capacity_bps(self.sampler.latest.cpu_ppm)
        return capacity_bps if self.line_bps is None else min(capacity_bps, self.line_bps)

    def enter(self, now: float) -> Mark:
        """A request enters service."""
        return now, self._concurrency.enter(now)

    def restart(self, now: float) -> Mark:
        """A request that is in service starts to use the node only now."""
        return now, self._concurrency.area(now)

    def leave(self, mark: Mark, size: int, now: float, *, is_sample: bool) -> None:
        """A request leaves service after `size` bytes of body."""
        began, area = mark
        among_milli = self._concurrency.leave(began, area, now)
        if is_sample:
            self.model.finished(size, round((now - began) * 1e9), among_milli, self.sampler.latest.cpu_ppm)

    def observe_fast_path(self, count: int, size: int, service_s: float) -> None:
        """The totals of the fast path so far: requests, their bytes, their time."""
        before, self._fast_path = self._fast_path, (count, size, service_s)
        count, size, service_s = count - before[0], size - before[1], service_s - before[2]
        if count > 0:
            service_ns = round(service_s / count * 1e9)
            self.model.finished(round(size / count), service_ns, ALONE, self.sampler.latest.cpu_ppm, count)
