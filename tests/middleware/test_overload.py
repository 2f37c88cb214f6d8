"""aiohttp middleware in a real application on a real socket: shares, waits, denials, and no delay without overload."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from qosweb.admission import clock as node_clock
from qosweb.errors import UsageError
from qosweb.middleware import Doorkeeper, guard
from tests.cluster.runtime.loops import eventually
from tests.support.virtual_time import VirtualClock, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SPEC = """\
set lifetime = 300ms
set channel = 64KB in 1s
</a>.server_resource = 25%
</b>.server_resource = 75%
header("X-Robot") => </slow>.num_requests < 1
"""
CAPACITY = "256KB/s"  # four at a time
WORK_S = 0.02
BODY = b"x" * 4096


class Application:
    """Works on each request for a while, and counts concurrent requests."""

    def __init__(self) -> None:
        self.now = self.most = self.entered = 0
        self.door = Doorkeeper(SPEC, capacity=CAPACITY)
        self.web = web.Application()
        self.web.add_routes([web.get("/fault", self._fault), web.get("/{path:.*}", self._work)])
        guard(self.web, self.door)

    async def _work(self, request: web.Request) -> web.Response:  # noqa: ARG002
        self.now, self.entered = self.now + 1, self.entered + 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(WORK_S)
        finally:
            self.now -= 1
        return web.Response(body=BODY)

    async def _fault(self, request: web.Request) -> web.Response:  # noqa: ARG002
        raise web.HTTPConflict(text="no")


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    clock = VirtualClock()
    monkeypatch.setattr(node_clock, "time", clock)
    return clock


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Application, aiohttp.ClientSession]]:
    application = Application()
    runner = web.AppRunner(application.web, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(f"http://{host}:{port}", connector=connector) as session:
            yield application, session
    finally:
        await runner.cleanup()


async def ask(session: aiohttp.ClientSession, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    async with session.get(path, headers=headers) as reply:
        return reply.status, {name.lower(): value for name, value in reply.headers.items()}, await reply.text()


def test_under_overload_shares_hold_and_concurrency_is_bounded(virtual: VirtualClock) -> None:
    async def story() -> None:
        async with running() as (application, session):
            served: Counter[str] = Counter()
            denials: list[tuple[int, dict[str, str], str]] = []

            async def client(path: str) -> None:
                while sum(served.values()) < 600:
                    status, fields, text = await ask(session, path)
                    if status == 200:
                        served[path] += 1
                        assert (fields["qos-class"], fields["qos-decision"]) == (path, "served")
                    else:
                        denials.append((status, fields, text))
                        await asyncio.sleep(0.05)

            await asyncio.gather(*(client(path) for path in ("/a", "/b") for _ in range(40)))
            assert application.most == 4
            assert served["/b"] / sum(served.values()) == pytest.approx(0.75, abs=0.05)
            assert denials
            for status, fields, text in denials:
                assert status == 503
                assert fields["qos-decision"] in ("denied; reason=lifetime", "denied; reason=cannot_be_reached")
                assert int(fields["retry-after"]) >= 1
                assert "The request was not served." in text
            assert application.entered <= sum(served.values()) + 8  # denied requests never reached the application

    run(story, virtual)


def test_without_overload_no_request_waits_or_is_denied(virtual: VirtualClock) -> None:
    async def story() -> None:
        async with running() as (application, session):
            for _ in range(20):
                status, fields, text = await ask(session, "/a")
                assert (status, fields["qos-class"], len(text)) == (200, "/a", len(BODY))
                assert not application.door.waiting()
            status, fields, text = await ask(session, "/fault")
            assert (status, text, fields["qos-decision"]) == (409, "no", "served")

    run(story, virtual)


def test_a_client_limit_is_429(virtual: VirtualClock) -> None:
    async def story() -> None:
        async with running() as (_, session):
            found = await asyncio.gather(*(ask(session, "/slow", **{"X-Robot": "yes"}) for _ in range(4)))
            statuses = Counter(status for status, _, _ in found)
            assert statuses.keys() == {200, 429}  # one 200, or two if the requests are slow to arrive
            assert statuses[429] >= 2
            assert (await ask(session, "/slow"))[0] == 200

    run(story, virtual)


def test_a_client_that_disconnects_leaves_the_queue(virtual: VirtualClock) -> None:
    async def story() -> None:
        async with running() as (application, session):
            door = application.door
            tasks = [asyncio.create_task(ask(session, "/a")) for _ in range(30)]
            await eventually(lambda: door.waiting()["/a"] > 0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await eventually(lambda: not door.waiting() and not application.now)
            assert (await ask(session, "/b"))[0] == 200

    run(story, virtual)


def test_a_specification_changes_while_it_runs_and_a_bad_one_changes_nothing(virtual: VirtualClock) -> None:
    async def story() -> None:
        async with running() as (application, session):
            assert (await ask(session, "/c"))[1]["qos-class"] == "default"
            with pytest.raises(UsageError, match="server_resource"):
                application.door.change_policy("</c>.server_resource > 101%\n")
            assert (await ask(session, "/c"))[1]["qos-class"] == "default"
            application.door.change_policy(SPEC + "</c>.server_resource < 50%\n")
            assert (await ask(session, "/c"))[1]["qos-class"] == "/c"

    run(story, virtual)


def test_invalid_arguments_are_explained() -> None:
    with pytest.raises(UsageError, match="nowhere"):
        Doorkeeper.from_file("/nowhere/at.all")
    with pytest.raises(UsageError, match="capacity"):
        Doorkeeper(SPEC, capacity="plenty")
