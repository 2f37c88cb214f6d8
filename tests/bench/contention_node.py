"""Node processes of ``./dev bench contention``: the full node without HTTP, controlled by JSON lines.

Each process is a member of a real cluster: the engine, its driver on the event loop, the group over TCP. Instead of
clients there are requests that return as soon as they have ended, so many that some always wait. A request that may
start holds its channel for HOLD_S. The baseline replaces the engine by a plain queue: first come, first served, at each
node separately, as many at a time as the node has channels.

{"do": "run", "mode": "cluster" or "plain", "seconds": 2.0}  ->  {"decisions": ..., "cpu_s": ..., "entries": ...}
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from cluster.names import ProcessId
from qosweb.admission.engine_driver import EngineDriver
from qosweb.engine.engine import Engine
from qosweb.engine.local.requests import Deny, Request, Start
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.engine.replicated.entries import NodeReport
from qosweb.engine.sim.policies import policy_of
from qosweb.releases.ledger import ReleaseLedger
from qosweb.server.cluster.membership import ClusterMembership
from qosweb.server.process import gc_tuning
from qosweb.settings import ServeSettings
from qosweb.units import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import View
    from qosweb.engine.local.requests import Decision
    from qosweb.engine.replicated.effects import EntryRejected, Reported, UpstreamsReported

COST = 16_384
HOLD_S = 0.02
CHANNEL_BPS = round(COST / HOLD_S)
CLASSES = 5
AHEAD = 6  # requests for each channel: some run, some are granted ahead, the others wait
TICK_S = 0.002
SPEC = f"set redirect = never\nset channel = {COST} in {HOLD_S * 1000:.0f}ms\n" + "".join(
    f"</c{number}>.server_resource = {100 // CLASSES}%\n" for number in range(CLASSES)
)


class Plain:
    """Baseline queue: first come, first served."""

    def __init__(self, channels: int) -> None:
        self._free = channels
        self._waiting: deque[Callable[[Decision], None]] = deque()

    def submit(self, class_number: int, decided: Callable[[Decision], None]) -> int:  # noqa: ARG002
        if self._free:
            self._free -= 1
            decided(Start(CHANNEL_BPS))
        else:
            self._waiting.append(decided)
        return 0

    def finish(self, request: object, until_s: float) -> None:  # noqa: ARG002
        if self._waiting:
            self._waiting.popleft()(Start(CHANNEL_BPS, until_s))
        else:
            self._free += 1

    def tell(self) -> None: ...


class InCluster:
    """Queue of the cluster: the engine of a member."""

    def __init__(self, driver: EngineDriver) -> None:
        self._driver = driver

    def submit(self, class_number: int, decided: Callable[[Decision], None]) -> Request:
        driver = self._driver
        request = driver.engine.pipe_queue.submit(class_number, COST, driver.now_ms(), decided)
        assert not isinstance(request, Deny), request
        return request

    def finish(self, request: Request, until_s: float) -> None:
        self._driver.engine.pipe_queue.finish(request, COST, until_s)

    def tell(self) -> None:
        self._driver.poke()


class Requests:
    """A fixed number of requests, each of which returns when it has ended."""

    def __init__(self, queue: Plain | InCluster, count: int) -> None:
        self._queue = queue
        self._ends: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0
        self.decisions = 0
        self.left = 0  # that are not over
        self.is_over = False  # none comes again
        for number in range(count):
            self._come(number % CLASSES)
        queue.tell()

    def _come(self, class_number: int) -> None:
        queue = self._queue
        request: Any = None
        self.left += 1

        def decided(decision: Decision) -> None:
            assert isinstance(decision, Start), decision
            self.decisions += 1
            self._number += 1
            since_s = decision.since_s if decision.since_s is not None else time.perf_counter()
            heappush(self._ends, (since_s + HOLD_S, self._number, end))

        def end(at_s: float) -> None:
            queue.finish(request, at_s)
            self.left -= 1
            if not self.is_over:
                self._come(class_number)

        request = queue.submit(class_number, decided)

    def tick(self) -> None:
        now = time.perf_counter()
        while self._ends and self._ends[0][0] <= now:
            at_s, _, end = heappop(self._ends)
            end(at_s)
        self._queue.tell()


class Node:
    """Listener of the engine."""

    def __init__(self, name: str, channels: int) -> None:
        self.channels = channels
        engine = Engine(ProcessId(name), CompiledPolicy.empty(), self, is_member=True, life=int(time.time()))
        self.driver = EngineDriver(asyncio.get_running_loop(), engine)
        self.membership: ClusterMembership | None = None
        self.members = 0

    async def begin(self, name: str, key: Path, contact: str) -> str:
        founds = not contact
        settings = ServeSettings(
            root=Path(),
            key_file=key,
            group=parse_address("127.0.0.1:0"),
            join=() if founds else (parse_address(contact),),
            bootstrap=founds,
        )
        self.membership = await ClusterMembership.begin(
            settings, name, self.driver, self._entered, ReleaseLedger(tuple, lambda: None)
        )
        while not self.members:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if founds:
            self.driver.engine.change_policy(policy_of(SPEC))
        self._report()
        return self.membership.group.addresses[0]

    def _entered(self, view: View | None) -> None:
        self.members = 0 if view is None else len(view.members)
        if view is not None:
            self._report()

    def _report(self) -> None:
        engine = self.driver.engine
        engine.now_ms = self.driver.now_ms()
        engine.report_capacity(NodeReport(self.channels * CHANNEL_BPS, 0, 0, "http://nowhere"))
        self.driver.poke()

    @property
    def is_ready(self) -> bool:
        machine = self.driver.engine.machine
        return len(machine.classes) > CLASSES and all(pipe.capacity_bps for pipe in machine.pipes.values())

    async def run(self, mode: str, seconds: float, warm_s: float) -> dict[str, float]:
        queue = Plain(self.channels) if mode == "plain" else InCluster(self.driver)
        requests = Requests(queue, AHEAD * self.channels)
        await self._tick(requests, warm_s)
        assert self.membership is not None
        replica = self.membership.replica
        before, began, cpu_s, position = requests.decisions, time.perf_counter(), time.process_time(), replica.position
        await self._tick(requests, seconds)
        cpu_s, took_s = time.process_time() - cpu_s, time.perf_counter() - began
        decisions, entries = requests.decisions - before, replica.position - position
        requests.is_over = True
        while requests.left:  # also those that wait: the next run finds all channels free
            await self._tick(requests, HOLD_S)
        return {"decisions": decisions, "cpu_s": cpu_s, "seconds": took_s, "entries": entries}

    async def _tick(self, requests: Requests, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            requests.tick()
            await asyncio.sleep(TICK_S)

    # ---- what the engine tells

    def policy_changed(self, position: int, policy: CompiledPolicy) -> None: ...
    def viewed(self, position: int, view: View) -> None: ...
    def reported(self, effect: Reported) -> None: ...
    def upstreams_reported(self, effect: UpstreamsReported) -> None: ...

    def entry_rejected(self, effect: EntryRejected) -> None:
        raise AssertionError(effect)


async def main() -> None:
    role = json.loads(sys.argv[1])
    node = Node(role["name"], role["channels"])
    say({"address": await node.begin(role["name"], Path(role["key"]), role["contact"])})
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        if order["do"] == "ready":
            while node.members != order["members"] or not node.is_ready:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            gc_tuning.tune_for_serving()  # as a node does
            say({"ready": True})
        else:
            say(await node.run(order["mode"], order["seconds"], order["warm_s"]))
    assert node.membership is not None
    await node.membership.close()


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
