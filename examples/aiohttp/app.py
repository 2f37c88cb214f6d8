"""An aiohttp application whose requests are admitted by a WebQoS specification."""

import asyncio
from pathlib import Path

from aiohttp import web

from qosweb.middleware import Doorkeeper, guard


async def search(request: web.Request) -> web.Response:
    await asyncio.sleep(0.05)
    return web.json_response({"query": request.query.get("q", ""), "found": ["map of the harbour"]})


async def orders(_request: web.Request) -> web.Response:
    return web.json_response({"orders": []})


def make_application() -> web.Application:
    application = web.Application()
    application.add_routes([web.get("/search", search), web.get("/orders", orders)])
    guard(application, Doorkeeper.from_file(Path(__file__).with_name("shop.webqos")))
    return application


if __name__ == "__main__":
    web.run_app(make_application(), host="127.0.0.1", port=9000, handler_cancellation=True, print=None)
