"""Admission control as the first middleware of an aiohttp application.

A denied request gets its response here and never reaches a handler. An admitted request releases its slot when its
handler returns. The doorkeeper closes with the application.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from qosweb.admission import Denial
from qosweb.middleware.doorkeeper import ERROR, ApplicationRequest, response_body, response_fields

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

    from qosweb.admission import Permit
    from qosweb.middleware.doorkeeper import Doorkeeper


def guard(application: web.Application, door: Doorkeeper) -> None:
    """Let `door` admit the requests of `application`, which must not have started yet."""

    async def close(_application: web.Application) -> None:
        await door.close()

    application.middlewares.insert(0, _admission(door))
    application.on_cleanup.append(close)


def _admission(door: Doorkeeper) -> Middleware:

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        fields = [(str(name), value) for name, value in request.headers.items()]
        asked = ApplicationRequest(request.method, request.raw_path, fields, request.remote or "")
        decided = await door.enter(asked)
        headers = dict(response_fields(decided))
        if isinstance(decided, Denial):
            media_type, body = response_body(decided, asked)
            return web.Response(status=decided.status, body=body, headers={"Content-Type": media_type, **headers})
        size, failed = 0, True
        try:
            response = await handler(request)
            size, failed = _size_of(response), response.status >= ERROR
            _note_cost(decided, response)
        except web.HTTPException as answer:
            size, failed = _size_of(answer), answer.status >= ERROR
            _note_cost(decided, answer)
            answer.headers.update(headers)
            raise
        except asyncio.CancelledError:
            decided.leave_server(withdrawn=True)
            raise
        finally:
            decided.leave_server(size, failed=failed)
            decided.close(size)
        if not response.prepared:
            response.headers.update(headers)
        return response

    return admit


def _note_cost(permit: Permit, response: web.StreamResponse) -> None:
    if permit.cost_header is not None:
        permit.stated_costs = response.headers.getall(permit.cost_header, [])


def _size_of(response: web.StreamResponse) -> int:
    if response.prepared:
        return response.body_length
    return response.content_length or 0
