"""Timer of the event loop: never early, can be set again, fires at once for past times."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import pytest

from loadgen.send.due_timer import KernelTimer, LoopTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from loadgen.send.due_timer import DueTimer

pytestmark = pytest.mark.timing

KINDS = [LoopTimer, *([KernelTimer] if sys.platform == "linux" else [])]


@pytest.mark.parametrize("kind", KINDS)
def test_timer_fires_after_its_time_and_can_be_set_again(
    kind: Callable[[asyncio.AbstractEventLoop, Callable[[], None]], DueTimer],
) -> None:
    async def ring() -> list[float]:
        loop = asyncio.get_running_loop()
        lateness: list[float] = []
        rang = asyncio.Event()
        due_s = 0.0

        def on_time() -> None:
            lateness.append(time.monotonic() - due_s)
            rang.set()

        pacer = kind(loop, on_time)
        pacer.set(time.monotonic() + 3600)  # replaced by what follows
        for delay_s in (0.0205, 0.0003, -5.0, 0.001):
            due_s = time.monotonic() + delay_s
            rang.clear()
            pacer.set(due_s)
            async with asyncio.timeout(20):
                await rang.wait()
        pacer.set(time.monotonic() + 0.001)
        pacer.close()
        pacer.close()
        return lateness

    lateness = asyncio.run(ring())
    assert len(lateness) == 4
    early_s = 0.0 if kind is KernelTimer else 0.002  # the loop's own clock is coarse
    assert all(late_s >= -early_s for late_s in lateness)
