"""Admission as a middleware of an aiohttp application, the first of all. The door closes with the application.

A request that is denied gets its answer here and never reaches a handler. A channel is free again when the handler has
its answer, or has sent it, if it is one that is sent in pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from qosweb.middleware.doorkeeper import Asked

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

    from qosweb.middleware.doorkeeper import Doorkeeper


def guard(application: web.Application, door: Doorkeeper) -> None:
    """Have `door` decide who enters, before the application starts."""

    async def close(_application: web.Application) -> None:
        await door.close()

    application.middlewares.insert(0, _admission(door))
    application.on_cleanup.append(close)


def _admission(door: Doorkeeper) -> Middleware:

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        fields = [(str(name), value) for name, value in request.headers.items()]
        place = await door.enter(Asked(request.method, request.raw_path, fields, request.remote or ""))
        if place.denial is not None:
            return web.Response(status=place.status, text=place.words, headers=dict(place.fields))
        size = 0
        try:
            response = await handler(request)
            size = _size_of(response)
        except web.HTTPException as answer:
            size = _size_of(answer)
            answer.headers.update(place.fields)
            raise
        finally:
            place.leave(size)
        if not response.prepared:
            response.headers.update(place.fields)
        return response

    return admit


def _size_of(response: web.StreamResponse) -> int:
    if response.prepared:
        return response.body_length
    return response.content_length or 0
