"""How much of a machine the processes of a test got: where others want it too, timings are theirs as well.

`Starved`: the part of the time in which processes were ready to run and waited for a processor, by the kernel's own
count. `Noise`: by how much a process that sleeps for a few milliseconds oversleeps, at worst.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SLEEPER = """
import sys, time
worst = 0.0
while True:
    before = time.perf_counter()
    time.sleep(0.005)
    late = time.perf_counter() - before - 0.005
    if late > worst:
        worst = late
        print(f"{worst * 1e3:.1f}", flush=True)
"""


class Starved:
    """Of the main threads of these processes; they have to live until `part` is asked for."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = list(pids)
        self._began = time.perf_counter()
        self._before = self._waited_s()

    def part(self) -> float:
        """0 to 1, in the mean over the processes, since this was made."""
        waited_s = self._waited_s() - self._before
        return waited_s / len(self._pids) / (time.perf_counter() - self._began)

    def _waited_s(self) -> float:
        texts = [Path(f"/proc/{pid}/schedstat").read_text() for pid in self._pids]
        return sum(int(text.split()[1]) for text in texts) / 1e9


class Noise:
    def __init__(self) -> None:
        self.worst_ms = 0.0

    def __enter__(self) -> Noise:
        self._process = subprocess.Popen([sys.executable, "-c", _SLEEPER], stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        told = self._process.communicate()[0]
        self.worst_ms = max((float(line) for line in told.splitlines() if line.count(".") == 1), default=0.0)
