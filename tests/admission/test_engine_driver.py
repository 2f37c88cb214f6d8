"""Engine driver: deadlines are kept even within a long turn of the event loop."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING

from cluster.names import ProcessId
from qosweb.admission.engine_driver import LONG_MS, EngineDriver
from qosweb.engine.engine import Engine
from qosweb.engine.local.requests import Decision, Deny
from qosweb.engine.replicated.entries import NodeReport
from tests.engine.driver import policy_of
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from cluster.names import View
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.replicated.effects import EntryRejected, Reported, UpstreamsReported

LIFETIME_MS = 2 * LONG_MS


class Ear:
    def policy_changed(self, position: int, policy: CompiledPolicy) -> None: ...
    def viewed(self, position: int, view: View) -> None: ...
    def reported(self, effect: Reported) -> None: ...
    def upstreams_reported(self, effect: UpstreamsReported) -> None: ...
    def entry_rejected(self, effect: EntryRejected) -> None: ...


async def one_long_turn() -> tuple[list[Decision], float]:
    """Queue a request while the loop never reaches its timers; the decisions, and after how many milliseconds."""
    engine = Engine(ProcessId("a"), policy_of(f"set lifetime = {LIFETIME_MS}ms\n"), Ear(), is_member=False)
    engine.report_capacity(NodeReport(1000, 0, 0, "http://a"))
    driver = EngineDriver(asyncio.get_running_loop(), engine)
    decisions: list[Decision] = []
    began = perf_counter()
    engine.pipe_queue.submit(0, 1_000_000, driver.now_ms(), decisions.append)

    def looked() -> bool:
        driver.expire_overdue()
        return bool(decisions)

    wait_for(looked, "a decision")
    driver.close()
    return decisions, (perf_counter() - began) * 1000


def test_an_entering_request_expires_overdue_ones() -> None:
    decisions, after_ms = asyncio.run(one_long_turn())
    assert [isinstance(one, Deny) and one.is_expired for one in decisions] == [True]
    assert after_ms >= LIFETIME_MS - 1  # whole milliseconds are counted
