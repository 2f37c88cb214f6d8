"""Virtual time for one process that talks to itself over real sockets.

The clock of the event loop stands still while there is work to do, and then jumps to the next timer. So a busy
machine causes no delays, and no test waits for a timer.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

WITHIN_S = 300.0
IN_FLIGHT_S = 0.001  # real time in which bytes reach another socket of this process


class VirtualClock:
    """Replaces the module `time` where code reads it: `monkeypatch.setattr(module, "time", clock)`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self._began_s = time.time() - self.now_s

    def perf_counter(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self._began_s + self.now_s


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if not (ready := super().select(IN_FLIGHT_S)):
            self._clock.now_s += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        return self._clock.now_s


def run(story: Callable[[], Coroutine[None, None, None]], clock: VirtualClock) -> None:
    """Run, bounded in virtual time."""

    async def bounded() -> None:
        async with asyncio.timeout(WITHIN_S):
            await story()

    with asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
        runner.run(bounded())
