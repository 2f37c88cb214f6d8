"""Saturation law: tells when a node's processor is full, and how much work it does per second then.

A full processor is one whose event loop does not sleep. In each window of at least WINDOW_S

    busy = (processor time + run delay of the loop's thread) / time passed.

Run delay is the time in which the thread could run and another thread had the core: the loop did not sleep then either.
Neither the rate of requests nor their latency is needed, so that there is nothing to calibrate.

The processor is full after HOT_WINDOWS windows with busy above HOT in which there was anything to order: two
connections at least. It is no longer full when no window was hot for COOL_S and no request waits. Short windows react
before a queue can grow in the kernel; a false alarm costs a few per cent of throughput for COOL_S.

The capacity is the mean of the work per second over windows with busy above FULL, with a time constant of MEAN_S.
Pure: times and observations are arguments. Enforcement: `qosweb.admission.processor_queue`.
"""

from __future__ import annotations

WINDOW_S = 0.005
HOT = 0.9
FULL = 0.95
HOT_WINDOWS = 2
COOL_S = 0.1
MEAN_S = 0.1


class SaturationLaw:
    """`is_saturated` and `capacity_per_s` are the findings."""

    def __init__(self) -> None:
        self.is_saturated = False
        self.capacity_per_s = 0.0  # of the last saturation; 0: there was none
        self._hot_windows = 0
        self._hot_at = 0.0
        self._at: float | None = None  # end of the last window
        self._busy_s = 0.0
        self._work = 0

    def observe(self, now: float, busy_s: float, work: int, *, is_shared: bool, waiting: int) -> None:
        """Observe the sums of busy time and work until `now`.

        `is_shared`: there is more than one connection. `waiting`: requests that wait for their turns.
        """
        if self._at is None:
            self._at, self._busy_s, self._work = now, busy_s, work
            return
        passed_s = now - self._at
        if passed_s < WINDOW_S:
            return
        busy = (busy_s - self._busy_s) / passed_s
        rate = (work - self._work) / passed_s
        self._at, self._busy_s, self._work = now, busy_s, work
        if busy > HOT and is_shared:
            self._hot_windows += 1
            self._hot_at = now
        else:
            self._hot_windows = 0
        if self.is_saturated:
            if busy > FULL and rate:
                self._learn(rate, passed_s)
            if now - self._hot_at > COOL_S and not waiting:
                self.is_saturated = False
        elif self._hot_windows >= HOT_WINDOWS:
            self.is_saturated = True

    def _learn(self, rate: float, passed_s: float) -> None:
        if self.capacity_per_s:
            self.capacity_per_s += min(1.0, passed_s / MEAN_S) * (rate - self.capacity_per_s)
        else:
            self.capacity_per_s = rate
