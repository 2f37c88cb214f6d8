"""Machine standstill: records when a virtual machine itself got no processor from its host.

Only the clock shows that inside the machine. So one process per processor sleeps for short times and records late
wake-ups. It has the highest priority, where that is allowed. Its waits for other processes, which the kernel counts,
are subtracted. Each costs about one per cent of its processor.

    python -m tests.support.standstill CPU      a line for each time, until standard input ends: from, to (seconds)
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import IO, Self

SLEEP_S = 0.002
LATE_S = 0.001  # shorter delays are timer resolution
TOP = Path(__file__).resolve().parents[2]


class Gap(NamedTuple):
    """One standstill; times as in `time.time`."""

    from_s: float
    to_s: float

    def within(self, from_s: float, to_s: float) -> float:
        """How much of the gap lies between these times."""
        return max(0.0, min(self.to_s, to_s) - max(self.from_s, from_s))


class Standstill:
    """Observes all processors of this process while it is entered. Query it meanwhile or afterwards."""

    def __init__(self) -> None:
        self._sleepers = [Sleeper(cpu) for cpu in sorted(os.sched_getaffinity(0))]

    def __enter__(self) -> Self:
        for sleeper in self._sleepers:
            sleeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        for sleeper in self._sleepers:
            sleeper.end()

    @property
    def pids(self) -> list[int]:
        return [sleeper.pid for sleeper in self._sleepers]

    def s_within(self, from_s: float, to_s: float) -> float:
        """How long a process on any processor may have been kept from running between these times."""
        return max(sum(gap.within(from_s, to_s) for gap in sleeper.gaps) for sleeper in self._sleepers)

    def longest_s(self, from_s: float = 0.0, to_s: float = float("inf")) -> float:
        gaps = (gap.within(from_s, to_s) for sleeper in self._sleepers for gap in sleeper.gaps)
        return max(gaps, default=0.0)


class Sleeper:
    """The process on one processor, and its records."""

    def __init__(self, cpu: int) -> None:
        self._command = [sys.executable, "-m", "tests.support.standstill", str(cpu)]
        self._process: subprocess.Popen[bytes] | None = None
        self._notes: IO[bytes] | None = None  # a file without a name, while it sleeps
        self._last: list[Gap] = []  # the records of the ended process

    def start(self) -> None:
        self._notes = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `end`
        self._process = subprocess.Popen(self._command, cwd=TOP, stdin=subprocess.PIPE, stdout=self._notes)

    def end(self) -> None:
        if self._process is not None and self._notes is not None:
            self._process.communicate()
            self._last = self.gaps
            self._notes.close()
            self._process = self._notes = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def gaps(self) -> list[Gap]:
        if self._notes is None:
            return self._last
        size = os.fstat(self._notes.fileno()).st_size
        lines = os.pread(self._notes.fileno(), size, 0).splitlines()  # each is written at once
        return [Gap(*map(float, line.split())) for line in lines]


def _waited_s() -> float:
    """Wait for other processes so far."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def look(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    waiting = selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ)
    before, waited = time.perf_counter(), _waited_s()
    while not waiting.select(SLEEP_S):
        now, waited_now = time.perf_counter(), _waited_s()
        late = now - before - SLEEP_S - (waited_now - waited)
        if late > LATE_S:
            at = time.time()
            os.write(1, b"%.6f %.6f\n" % (at - late, at))
        before, waited = now, waited_now


if __name__ == "__main__":
    look(int(sys.argv[1]))
