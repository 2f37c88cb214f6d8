"""How much of a machine the processes of a test got: where others want it too, timings are theirs as well.

The kernel counts for each process how long it was ready to run and waited for a processor (`/proc/PID/schedstat`).
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SAMPLE_S = 0.02


def waited_s(pid: int) -> float:
    """So far, its main thread; an end is no wait."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


class Starved:
    """Over some time; these processes have to live until `part` is asked for."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = list(pids)
        self._began = time.perf_counter()
        self._before = sum(map(waited_s, self._pids))

    def part(self) -> float:
        """Of the time since this was made they waited for a processor: 0 to 1, in the mean over the processes."""
        waited = sum(map(waited_s, self._pids)) - self._before
        return waited / len(self._pids) / (time.perf_counter() - self._began)


class Stalls:
    """When each process waited, to be asked of later: a thread looks at the count every few milliseconds."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, list[float], list[float]]] = {}  # by name: pid, times, counts
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def watch(self, name: str, pid: int) -> None:
        self._seen[name] = pid, [time.time()], [waited_s(pid)]

    def waited_ms(self, name: str, from_s: float, to_s: float) -> float:
        """Between these times, or a little longer, so that none of it is missed."""
        _, times, counts = self._seen[name]
        first, last = bisect_right(times, from_s) - 1, bisect_left(times, to_s)
        return (counts[min(last, len(counts) - 1)] - counts[max(first, 0)]) * 1e3

    def worst_ms(self, name: str, within_s: float = 1.0) -> float:
        """The most that it waited within such a time."""
        times = self._seen[name][1]
        return max(self.waited_ms(name, at_s, at_s + within_s) for at_s in times)

    def _look(self) -> None:
        while not self._stopping.wait(SAMPLE_S):
            for pid, times, counts in list(self._seen.values()):
                times.append(time.time())
                counts.append(max(counts[-1], waited_s(pid)))
