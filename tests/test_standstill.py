"""The detector of stalls notices when its process is suspended."""

from __future__ import annotations

import os
import signal
import time

from tests.support.standstill import Gap, Standstill
from tests.support.waiting import wait_for

STOPPED_S = 0.05


def test_the_stalled_time_between_two_times() -> None:
    gap = Gap(10.0, 11.0)
    assert [gap.within(*between) for between in ((0, 9), (0, 10.5), (10.25, 10.5), (10.5, 20), (12, 13))] == [
        0.0, 0.5, 0.25, 0.5, 0.0,
    ]  # fmt: skip


def test_a_stall_is_seen_during_and_after_the_watch() -> None:
    began = time.time()
    with Standstill() as standstill:

        def stop_and_see() -> float | None:
            """Suspend the watcher. Retried if it had not started to watch yet."""
            pid = standstill.pids[0]
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            os.kill(pid, signal.SIGCONT)
            found = standstill.longest_s(began, time.time())
            return found if found > STOPPED_S / 2 else None

        seen = wait_for(stop_and_see, "a standstill", 30)
    assert standstill.longest_s() >= seen
    assert standstill.s_within(began, time.time()) >= seen
    assert standstill.s_within(0.0, began) == 0.0
