"""A Starlette application whose requests are admitted by a WebQoS specification."""

import asyncio
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from qosweb.middleware import AsgiAdmission, Doorkeeper


async def search(request: Request) -> JSONResponse:
    await asyncio.sleep(0.05)
    return JSONResponse({"query": request.query_params.get("q", ""), "found": ["map of the harbour"]})


async def orders(_request: Request) -> JSONResponse:
    return JSONResponse({"orders": []})


door = Doorkeeper.from_file(Path(__file__).with_name("shop.webqos"))
application = AsgiAdmission(Starlette(routes=[Route("/search", search), Route("/orders", orders)]), door)
