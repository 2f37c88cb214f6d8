"""When the machine stood still: on each core a sleeper, for two milliseconds at a time, notes when it was woken late.

On a machine that is shared, a core is sometimes taken away for milliseconds, and whatever is measured meanwhile is of
that. The sleepers go before everything else on their core, where that is allowed: who is then not woken was not
hindered by what is measured. They cost about one per cent of a core.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Self

SLEEP_S = 0.002
LATE_S = 0.001  # later than that is no matter of timers


class Stood(NamedTuple):
    """Of some stretch of time."""

    share: float  # of it, on the core where that was more
    longest_ms: float
    stolen: float  # share of all cores' time that the host says it gave to others; it need not say


class Sleepers:
    """``with Sleepers() as sleepers``; ``since`` tells of the time since a moment of ``time.monotonic``."""

    def __enter__(self) -> Self:
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
        self._folder = tempfile.TemporaryDirectory()
        self._notes = [Path(self._folder.name) / str(core) for core in self._cores]
        self._processes = []
        for core, notes in zip(self._cores, self._notes, strict=True):
            with notes.open("wb") as file:
                command = [sys.executable, "-m", "tests.bench.standstill", str(core)]
                self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file))
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._folder.cleanup()

    def since(self, began_s: float, stolen_before: int) -> Stood:
        lasted_s = time.monotonic() - began_s
        sums, longest_s = [0.0], 0.0
        for notes in self._notes:
            late = [float(words[1]) for line in notes.read_text().splitlines()
                    if len(words := line.split()) == 2 and float(words[0]) >= began_s]  # fmt: skip
            sums.append(sum(late))
            longest_s = max(longest_s, *late, 0.0)
        stolen_s = (stolen_ticks() - stolen_before) / os.sysconf("SC_CLK_TCK")
        return Stood(max(sums) / lasted_s, longest_s * 1e3, stolen_s / lasted_s / len(self._cores))


def stolen_ticks() -> int:
    """Of all cores since the machine began; 0 where nobody counts them."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])
    return 0


def _sleep(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    before_s = time.monotonic()
    while True:
        time.sleep(SLEEP_S)
        now_s = time.monotonic()
        late_s = now_s - before_s - SLEEP_S
        if late_s > LATE_S:
            os.write(1, f"{before_s:.6f} {late_s:.6f}\n".encode())
        before_s = now_s


if __name__ == "__main__":
    _sleep(int(sys.argv[1]))
