"""Measures the capacity of this node from its own requests (section 3.1 of the paper).

A request of the stages is noted at its start and at its end. One that was paced, that failed, or that had to wait for
its reader says nothing about the node and only counts as one of those in service. Plain requests are not noted one by
one, which would cost the fast path: their sums are told once a second.

What it cannot see is a network that is slower than the node: whether the reader or the line was slow looks alike from
here. Where the line is the bottleneck, ``--capacity`` has to say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.admission.machine_load import MachineLoadSampler
from qosweb.engine.local.capacity import Concurrency, ResourceModel

if TYPE_CHECKING:
    from qosweb.server.accesslog.recorder import AccessRecorder
    from qosweb.server.request.exchange import Exchange

ALONE = 1000  # thousandths: a plain request has the event loop to itself


class CapacityMeter:
    def __init__(self, by_hand_bps: int | None) -> None:
        """``by_hand_bps`` is the capacity that somebody has set."""
        self.watch = MachineLoadSampler()
        self.model = ResourceModel()
        self.by_hand_bps = by_hand_bps
        self._concurrency = Concurrency()
        self._plain = 0, 0, 0.0  # requests, bytes and seconds that were told

    @property
    def capacity_bps(self) -> int:
        if self.by_hand_bps is not None:
            return self.by_hand_bps
        return self.model.capacity_bps(self.watch.latest.cpu_ppm)

    def began(self, exchange: Exchange, now: float) -> None:
        exchange.metered = now, self._concurrency.enter(now)

    def ended(self, exchange: Exchange, size: int, now: float, *, counts: bool) -> None:
        """``counts`` is whether its time was the node's own doing."""
        if exchange.metered is None:
            return
        began, area = exchange.metered
        exchange.metered = None
        among_milli = self._concurrency.leave(began, area, now)
        if counts and exchange.rate_bps is None:
            service_ns = round((now - began) * 1e9)
            self.model.finished(size, service_ns, among_milli, self.watch.latest.cpu_ppm)

    def tell_plain(self, ledger: AccessRecorder) -> None:
        """Once a second: the plain requests since the last time."""
        latest = ledger.plain_totals()
        count, size, service_s = (now - before for now, before in zip(latest, self._plain, strict=True))
        self._plain = latest
        if count > 0:
            service_ns = round(service_s / count * 1e9)
            self.model.finished(round(size / count), service_ns, ALONE, self.watch.latest.cpu_ppm, int(count))
