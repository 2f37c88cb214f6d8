"""Measures how undisturbed the machine was during a measurement: stalls, and CPU time of other programs.

On a shared machine a core is sometimes taken away for milliseconds, which falsifies any measurement at that time
(`tests.support.standstill`). Other programs on this machine take CPU time, too: it is the CPU time of all processors
less that of the measured processes.
"""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING, NamedTuple

import psutil

from tests.support.standstill import Standstill

if TYPE_CHECKING:
    from typing import Self


def stolen_s() -> float:
    """Steal time of all cores since the machine started, as far as the host reports it."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


class Stood(NamedTuple):
    """Disturbances in an interval."""

    share: float  # of it, on the core where that was more
    longest_ms: float
    stolen: float  # share of all cores' time that the host says it gave to others; it need not say
    others: float  # what other programs of this machine took, as a share of one core; about 0.02 is the error of that


class Before(NamedTuple):
    """Counters at the beginning of an interval."""

    at_s: float
    stolen_s: float
    busy_s: float
    ours_s: float


class Calm:
    """``with Calm(pid) as calm``; ``since`` returns the disturbances since ``now``. ``pid`` is a measured server."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)
        self._standstill = Standstill()

    def __enter__(self) -> Self:
        self._standstill.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self._standstill.__exit__()

    def now(self) -> Before:
        """Reads the counters. Measured programs that have ended, the server and the sleepers do not count as others."""
        own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        ours_s = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
        for process in (self._server, *map(psutil.Process, self._standstill.pids)):
            times = process.cpu_times()
            ours_s += times.user + times.system
        every = psutil.cpu_times()
        busy_s = sum(getattr(every, kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq"))
        return Before(time.time(), stolen_s(), busy_s, ours_s)

    def since(self, before: Before) -> Stood:
        now = self.now()
        lasted_s = now.at_s - before.at_s
        stolen = (now.stolen_s - before.stolen_s) / lasted_s / len(os.sched_getaffinity(0))
        others_s = (now.busy_s - before.busy_s) - (now.ours_s - before.ours_s)
        between = before.at_s, now.at_s
        share, longest_s = self._standstill.s_within(*between) / lasted_s, self._standstill.longest_s(*between)
        return Stood(share, longest_s * 1e3, stolen, max(0.0, others_s / lasted_s))
