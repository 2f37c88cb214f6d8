"""A small application server behind a node, as a process of its own: ``python -m tests.support.application PORT``.

``/page`` responds at once, ``/read`` after the request body, ``/large`` with 8 MB, ``/events`` with a stream of events,
``/late?ms=N`` after N milliseconds. SIGTERM lets requests finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time

from aiohttp import web

from tests.support.waiting import wait_for

LARGE = bytes(8 << 20)
EVENT_EVERY_S = 1.0
PAGE = b"x" * 1024


async def page(_: web.Request) -> web.Response:
    return web.Response(body=PAGE, headers={"X-Server": sys.argv[1]})


async def late(request: web.Request) -> web.Response:
    await asyncio.sleep(int(request.query["ms"]) / 1000)
    return web.Response(body=PAGE)


async def read(request: web.Request) -> web.Response:
    with contextlib.suppress(ConnectionError):
        return web.Response(text=str(len(await request.read())))
    return web.Response(status=400)


async def large(_: web.Request) -> web.Response:
    return web.Response(body=LARGE)


async def events(request: web.Request) -> web.StreamResponse:
    """Each event is the time at which it was written."""
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await stream.write(b"data: %.6f\n\n" % time.time())
            await asyncio.sleep(EVENT_EVERY_S)
    return stream


class Application:
    """Runs the server at ``port`` while the context lasts."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([sys.executable, "-m", "tests.support.application", str(port)])

    def __enter__(self) -> Application:
        wait_for(self._listens, "the application")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def _listens(self) -> bool:
        assert self.process.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


def application() -> web.Application:
    made = web.Application()
    made.router.add_get("/late", late)
    made.router.add_post("/read", read)
    made.router.add_get("/large", large)
    made.router.add_get("/events", events)
    made.router.add_get("/page", page)
    return made


def upstream_options(*servers: Application) -> list[str]:
    return [word for one in servers for word in ("--upstream", one.url)]


if __name__ == "__main__":
    web.run_app(application(), host="127.0.0.1", port=int(sys.argv[1]), backlog=2048, print=None, access_log=None)
