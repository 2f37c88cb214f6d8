"""Busy time of the event loop: how long its thread ran, or waited for a core, since it started.

Processor time comes from the thread's own clock: the kernel updates the one in schedstat at its timer tick only, which
is too coarse for windows of a few milliseconds. Run delay comes from schedstat (Linux); elsewhere it counts as sleep.
"""

from __future__ import annotations

import contextlib
import os
from time import thread_time_ns

_SCHEDSTAT = "/proc/thread-self/schedstat"


class LoopBusyTime:
    """Create and read it in the thread of the event loop."""

    def __init__(self) -> None:
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)

    def read_s(self) -> float:
        delay_ns = 0
        if self._file >= 0:
            delay_ns = int(os.pread(self._file, 64, 0).split()[1])
        return (thread_time_ns() + delay_ns) * 1e-9

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
