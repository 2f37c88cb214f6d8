"""The wrapped application as a server whose slots are found: a real application on a real socket, in virtual time.

Handlers take 50 ms and answer with 13 bytes; eight of them run at a time, the others wait in the application. The times
vary by 2 %: if they were all equal, requests would stay in step, and those of one class would always meet the queue
inside the application. Equal slot time would then be fewer requests of that class.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from qosweb.admission import clock as node_clock
from qosweb.admission import engine_driver
from qosweb.errors import UsageError
from qosweb.middleware import ApplicationRequest, Doorkeeper, Permit, guard
from tests.cluster.runtime.loops import eventually
from tests.cluster.runtime.loops import run as run_in_real_time
from tests.support.virtual_time import VirtualClock, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WORKERS = 8
WORK_S = 0.05
SPEC = """\
set lifetime = 20s
</a>.server_resource = equal
</b>.server_resource = equal
</c>.server_resource = equal
</now>.available = always
"""
CLIENTS = {"/a": 12, "/b": 24, "/c": 48}


class Application:
    """Has few workers."""

    def __init__(self, door: Doorkeeper) -> None:
        self.door = door
        self.inside = self.inside_max = 0
        self.failing = False
        self.costs: dict[str, str] = {}
        self.slot_s: defaultdict[str, float] = defaultdict(float)  # time inside by path
        self._chance = Random(1)
        self._workers = asyncio.Semaphore(WORKERS)
        self.web = web.Application()
        self.web.add_routes([web.get("/{path:.*}", self._work)])
        guard(self.web, door)

    async def _work(self, request: web.Request) -> web.Response:
        self.inside += 1
        self.inside_max = max(self.inside_max, self.inside)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with self._workers:
                await asyncio.sleep(WORK_S * self._chance.uniform(0.98, 1.02))
        finally:
            self.inside -= 1
            self.slot_s[request.path] += loop.time() - began_s
        if self.failing:
            raise web.HTTPInternalServerError
        return web.Response(text="Hello, world!", headers={"X-Cost": self.costs.get(request.path, "1")})


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    clock = VirtualClock()
    monkeypatch.setattr(node_clock, "time", clock)
    monkeypatch.setattr(engine_driver, "perf_counter", clock.perf_counter)
    return clock


@asynccontextmanager
async def running(door: Doorkeeper) -> AsyncIterator[tuple[Application, aiohttp.ClientSession]]:
    application = Application(door)
    runner = web.AppRunner(application.web, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession(f"http://{host}:{port}", connector=aiohttp.TCPConnector(limit=0)) as session:
            yield application, session
    finally:
        await runner.cleanup()


def test_equal_classes_are_equal_and_always_available_ones_wait_at_most_one_service_time(virtual: VirtualClock) -> None:
    async def story() -> None:
        async with running(Doorkeeper(SPEC)) as (application, session):
            loop = asyncio.get_running_loop()
            served: Counter[str] = Counter()
            slowest_s, stop = 0.0, False

            async def client(path: str) -> None:
                nonlocal slowest_s
                while not stop:
                    began_s = loop.time()
                    async with session.get(path) as reply:
                        assert (reply.status, len(await reply.read())) == (200, 13)
                    served[path] += 1
                    if path == "/now":
                        slowest_s = max(slowest_s, loop.time() - began_s)

            clients = [asyncio.create_task(client(path)) for path, number in CLIENTS.items() for _ in range(number)]
            await asyncio.sleep(3)
            served.clear()
            application.slot_s.clear()
            clients.append(asyncio.create_task(client("/now")))
            application.inside_max, began_s = 0, loop.time()
            await asyncio.sleep(12)
            found, passed_s = Counter(served), loop.time() - began_s
            slot_s = [application.slot_s[path] for path in CLIENTS]
            waits = application.door.waiting()
            stop = True
            await asyncio.gather(*clients)
            assert waits["/b"] > 0
            assert waits["/c"] > waits["/b"]
            ordinary = [found[path] for path in CLIENTS]
            assert max(slot_s) <= 1.02 * min(slot_s), slot_s
            assert max(ordinary) <= 1.05 * min(ordinary), found
            assert sum(found.values()) >= 0.95 * passed_s * WORKERS / WORK_S
            assert found["/now"] > 0.9 * passed_s / (2 * WORK_S)
            assert slowest_s <= 2 * WORK_S + 0.01  # in service, after a wait of at most as long
            assert application.inside_max <= 2 * WORKERS

    run(story, virtual)


def test_a_header_of_the_application_says_the_cost(virtual: VirtualClock) -> None:
    async def story() -> None:
        spec = SPEC + "".join(f'<{path}>.cost = response_header("X-Cost")\n' for path in CLIENTS)
        async with running(Doorkeeper(spec, slots=WORKERS)) as (application, session):
            application.costs = {"/a": "2.5", "/b": "5", "/c": "10"}
            served: Counter[str] = Counter()
            stop = False

            async def client(path: str) -> None:
                while not stop:
                    async with session.get(path) as reply:
                        assert reply.status == 200
                    served[path] += 1

            clients = [asyncio.create_task(client(path)) for path in CLIENTS for _ in range(24)]
            await asyncio.sleep(3)
            served.clear()
            await asyncio.sleep(10)
            costs = [served[path] * float(application.costs[path]) for path in CLIENTS]
            stop = True
            await asyncio.gather(*clients)
            assert max(costs) <= 1.05 * min(costs), costs

    run(story, virtual)


def test_slots_by_hand_are_an_upper_bound(virtual: VirtualClock) -> None:
    async def story() -> None:
        async with running(Doorkeeper(SPEC, slots=3)) as (application, session):

            async def client() -> None:
                for _ in range(10):
                    async with session.get("/a") as reply:
                        assert reply.status == 200

            await asyncio.gather(*(client() for _ in range(20)))
            assert application.inside_max == 3

    run(story, virtual)


def test_a_failing_application_gets_one_request_at_a_time_until_it_succeeds(virtual: VirtualClock) -> None:
    async def story() -> None:
        async with running(Doorkeeper(SPEC)) as (application, session):
            seen: Counter[int] = Counter()

            async def client(times: int) -> None:
                for _ in range(times):
                    async with session.get("/a") as reply:
                        seen[reply.status] += 1

            await asyncio.gather(*(client(20) for _ in range(30)))
            application.failing = True
            failing = asyncio.gather(*(client(10) for _ in range(30)))
            await eventually(lambda: seen[500] >= 100)
            application.inside_max = application.inside
            await eventually(lambda: seen[500] >= 200)
            assert application.inside_max == 1
            application.failing = False
            await failing
            assert application.inside_max > 1
            assert seen.total() == 900

    run(story, virtual)


def test_a_handler_that_takes_long_gives_its_slot_back(virtual: VirtualClock) -> None:
    async def story() -> None:
        door = Doorkeeper(SPEC, slots=1)
        stream = await door.enter(ApplicationRequest("GET", "/a", [], "192.0.2.1"))
        assert isinstance(stream, Permit)
        began_s = asyncio.get_running_loop().time()
        following = await asyncio.wait_for(door.enter(ApplicationRequest("GET", "/b", [], "192.0.2.1")), 60)
        assert isinstance(following, Permit)
        assert 10 <= asyncio.get_running_loop().time() - began_s <= 12
        stream.close(1000)
        following.close(13)
        await door.close()

    run(story, virtual)


def test_slots_and_a_capacity_exclude_each_other() -> None:
    async def story() -> None:
        for options in ({"slots": 0}, {"slots": 4, "capacity": "2MB/s"}):
            with pytest.raises(UsageError, match="slots"):
                Doorkeeper(SPEC, **options)

    run_in_real_time(story)
