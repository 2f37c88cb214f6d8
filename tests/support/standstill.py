"""When the machine itself stood still: a virtual one gets no processor while its host has other things to do.

No process of the machine can see that but by the clock. So on each processor one does nothing but sleep for a moment
and look how late it was woken. What it waited for other processes (the kernel counts that) is not meant here.

    python -m tests.support.standstill CPU      a line for each time, until standard input ends: from, to (seconds)
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

SLEEP_S = 0.002
LATE_S = 0.005  # what is less is no standstill
TOP = Path(__file__).resolve().parents[2]


class Gap(NamedTuple):
    from_s: float
    to_s: float

    def within(self, from_s: float, to_s: float) -> float:
        """How much of it lies between these times."""
        return max(0.0, min(self.to_s, to_s) - max(self.from_s, from_s))


class Standstill:
    """Look on all processors that this process may use, for as long as it is entered; ask meanwhile, and afterwards."""

    def __init__(self) -> None:
        self._sleepers = [Sleeper(cpu) for cpu in sorted(os.sched_getaffinity(0))]

    def __enter__(self) -> Standstill:
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
        """How long a process may have been kept from running between these times, wherever it was to run."""
        return max(sum(gap.within(from_s, to_s) for gap in sleeper.gaps) for sleeper in self._sleepers)

    @property
    def longest_s(self) -> float:
        return max((gap.to_s - gap.from_s for sleeper in self._sleepers for gap in sleeper.gaps), default=0.0)


class Sleeper:
    """The process on one processor, and what it told."""

    def __init__(self, cpu: int) -> None:
        self._command = [sys.executable, "-m", "tests.support.standstill", str(cpu)]
        self._gaps: list[Gap] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def end(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._read()
        self._process.stdout.close()
        self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def gaps(self) -> list[Gap]:
        if self._process is not None:
            self._read()
        return self._gaps

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while told := self._process.stdout.read(65536):  # None: nothing yet
            *lines, self._rest = (self._rest + told).split(b"\n")
            self._gaps += [Gap(*map(float, line.split())) for line in lines]


def _waited_s() -> float:
    """For other processes, so far."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def look(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    waiting = selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ)
    before, waited = time.perf_counter(), _waited_s()
    while not waiting.select(SLEEP_S):
        now, waited_now = time.perf_counter(), _waited_s()
        late = now - before - SLEEP_S - (waited_now - waited)
        if late > LATE_S:
            at = time.time()
            print(at - late, at, flush=True)
        before, waited = now, waited_now


if __name__ == "__main__":
    look(int(sys.argv[1]))
