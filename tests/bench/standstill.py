"""When the machine stood still: on each core a sleeper, for two milliseconds at a time, notes when it was woken late.

On a machine that is shared, a core is sometimes taken away for milliseconds, and whatever is measured meanwhile is of
that. The sleepers go before everything else on their core, where that is allowed: who is then not woken was not
hindered by what is measured. They cost about one per cent of a core.

They also go before other programs on this machine, which take time from what is measured nevertheless. So the time of
all processors is counted, too, and what is measured subtracted from it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from typing import Self

SLEEP_S = 0.002
LATE_S = 0.001  # later than that is no matter of timers


class Stood(NamedTuple):
    """Of some stretch of time."""

    share: float  # of it, on the core where that was more
    longest_ms: float
    stolen: float  # share of all cores' time that the host says it gave to others; it need not say
    others: float  # what other programs of this machine took, as a share of one core; about 0.02 is the error of that


class Before(NamedTuple):
    """What was counted at a moment."""

    at_s: float
    stolen_s: float
    busy_s: float
    ours_s: float


class Sleepers:
    """``with Sleepers(pid) as sleepers``; ``since`` tells of the time since ``now``. ``pid`` is a server's of ours."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)

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

    def now(self) -> Before:
        """Programs that are measured and have ended by then are ours, and so are the server and the sleepers."""
        own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        ours_s = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
        for process in (self._server, *(psutil.Process(sleeper.pid) for sleeper in self._processes)):
            times = process.cpu_times()
            ours_s += times.user + times.system
        every = psutil.cpu_times()
        busy_s = sum(getattr(every, kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq"))
        return Before(time.monotonic(), getattr(every, "steal", 0.0), busy_s, ours_s)

    def since(self, before: Before) -> Stood:
        now = self.now()
        lasted_s = now.at_s - before.at_s
        sums, longest_s = [0.0], 0.0
        for notes in self._notes:
            late = [float(words[1]) for line in notes.read_text().splitlines()
                    if len(words := line.split()) == 2 and float(words[0]) >= before.at_s]  # fmt: skip
            sums.append(sum(late))
            longest_s = max(longest_s, *late, 0.0)
        stolen = (now.stolen_s - before.stolen_s) / lasted_s / len(self._cores)
        others_s = (now.busy_s - before.busy_s) - (now.ours_s - before.ours_s)
        return Stood(max(sums) / lasted_s, longest_s * 1e3, stolen, max(0.0, others_s / lasted_s))


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
