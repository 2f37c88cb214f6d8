"""Machine load: processor and network load, sampled once a second in a thread.

Neighbours: the table of `capacity_meter` depends on processor load; `/metrics` shows both loads.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import psutil

PPM = 1_000_000


class MachineLoad(NamedTuple):
    """One sample. Rates cover the time since the previous sample."""

    cpu_ppm: int = 0  # of all processors
    sent_bps: int = 0  # of all network interfaces
    received_bps: int = 0


class MachineLoadSampler:
    """Samples the load. `sample` makes system calls that take a fraction of a millisecond: call it in a thread."""

    def __init__(self) -> None:
        self.latest = MachineLoad()
        self._at = perf_counter()
        self._sent, self._received = _network_bytes()
        psutil.cpu_percent(None)  # the first result is meaningless

    def sample(self) -> MachineLoad:
        now = perf_counter()
        sent, received = _network_bytes()
        passed_s = max(now - self._at, 1e-3)
        cpu_ppm = round(psutil.cpu_percent(None) / 100 * PPM)
        self.latest = MachineLoad(
            min(max(cpu_ppm, 0), PPM),
            max(0, round((sent - self._sent) / passed_s)),  # the kernel's counters may restart
            max(0, round((received - self._received) / passed_s)),
        )
        self._at, self._sent, self._received = now, sent, received
        return self.latest


def _network_bytes() -> tuple[int, int]:
    counters = psutil.net_io_counters()
    return (0, 0) if counters is None else (counters.bytes_sent, counters.bytes_recv)
