"""How busy the machine is: processors and network, looked at once a second, off the path of requests.

Neighbours: ``qosweb.admission.capacity_meter`` keeps its table by the load of the processors; both are shown in
/metrics.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import psutil

PPM = 1_000_000


class MachineLoad(NamedTuple):
    cpu_ppm: int = 0  # of all processors, since the look before
    sent_bps: int = 0  # of all network interfaces
    received_bps: int = 0


class MachineLoadSampler:
    """``look`` asks the kernel, which takes a fraction of a millisecond: not for the event loop."""

    def __init__(self) -> None:
        self.latest = MachineLoad()
        self._at = perf_counter()
        self._sent, self._received = _network_bytes()
        psutil.cpu_percent(None)  # the first answer means nothing

    def look(self) -> MachineLoad:
        now = perf_counter()
        sent, received = _network_bytes()
        passed_s = max(now - self._at, 1e-3)
        cpu_ppm = round(psutil.cpu_percent(None) / 100 * PPM)
        self.latest = MachineLoad(
            min(max(cpu_ppm, 0), PPM),
            max(0, round((sent - self._sent) / passed_s)),  # counters may begin anew
            max(0, round((received - self._received) / passed_s)),
        )
        self._at, self._sent, self._received = now, sent, received
        return self.latest


def _network_bytes() -> tuple[int, int]:
    counters = psutil.net_io_counters()
    return (0, 0) if counters is None else (counters.bytes_sent, counters.bytes_recv)
