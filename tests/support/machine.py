"""Processor starvation: how long the processes of a test waited for a processor, as an allowance for timings.

The kernel counts for each process how long it was ready to run and waited (`/proc/PID/schedstat`). The count lacks
processes that slept while the whole machine stood still: see `standstill`.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.support.standstill import Standstill

if TYPE_CHECKING:
    from collections.abc import Iterable

SAMPLE_S = 0.02


def waited_s(pid: int) -> dict[str, float]:
    """Total wait of each thread so far: a thread that waits for a processor may delay the others."""
    found = {}
    with suppress(OSError):  # it ends
        for task in Path(f"/proc/{pid}/task").iterdir():
            found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return found


class Starved:
    """Starvation over some time; the processes must be alive until `part` is called."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = list(pids)
        self._began = time.perf_counter()
        self._before = self._main_threads()

    def part(self) -> float:
        """The fraction of the time since creation that the processes waited for a processor: 0 to 1, their mean."""
        waited = self._main_threads() - self._before
        return waited / len(self._pids) / (time.perf_counter() - self._began)

    def _main_threads(self) -> float:
        return sum(waited_s(pid).get(str(pid), 0.0) for pid in self._pids)


class Seen(NamedTuple):
    pid: int
    threads: dict[str, float]
    times: list[float]
    counts: list[float]

    def look(self) -> None:
        self.threads.update(waited_s(self.pid))
        self.times.append(time.time())
        self.counts.append(sum(self.threads.values()))


class Stalls:
    """When each process waited, for later queries: a thread reads the count every few milliseconds."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}  # by name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._standstill = Standstill()

    def __enter__(self) -> Stalls:
        self._standstill.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._standstill.__exit__()

    def watch(self, name: str, pid: int) -> None:
        seen = Seen(pid, {}, [], [])
        seen.look()
        self._seen[name] = seen

    def waited_ms(self, name: str, from_s: float, to_s: float) -> float:
        """Wait for a processor or for the machine between these times, or a little longer: never too little."""
        seen = self._seen[name]
        first, last = bisect_right(seen.times, from_s) - 1, bisect_left(seen.times, to_s)
        waited_s = seen.counts[min(last, len(seen.counts) - 1)] - seen.counts[max(first, 0)]
        return (waited_s + self._standstill.s_within(from_s, to_s)) * 1e3

    def worst_ms(self, name: str, within_s: float = 1.0) -> float:
        """The longest wait within any interval of this length."""
        return max(self.waited_ms(name, at_s, at_s + within_s) for at_s in self._seen[name].times)

    def _look(self) -> None:
        while not self._stopping.wait(SAMPLE_S):
            for seen in list(self._seen.values()):
                seen.look()
