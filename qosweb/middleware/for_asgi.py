"""Admission around an ASGI application (https://asgi.readthedocs.io, HTTP). Other protocols pass as they are.

A request that is denied gets its answer here and never reaches the application. The door closes with its lifespan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from qosweb.middleware.doorkeeper import Asked

if TYPE_CHECKING:
    from qosweb.middleware.doorkeeper import Doorkeeper, Place

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class AsgiAdmission:
    def __init__(self, app: Application, door: Doorkeeper) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif scope["type"] == "http":
            place = await self._door.enter(_asked(scope))
            if place.denial is None:
                await self._pass(place, scope, receive, send)
            else:
                await _deny(place, send)
        else:
            await self._app(scope, receive, send)

    async def _pass(self, place: Place, scope: Message, receive: Receive, send: Send) -> None:
        size = 0

        async def sent(message: Message) -> None:
            nonlocal size
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_encoded(place)]}
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            place.leave(size)

    async def _live(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            await self._door.close()


def _asked(scope: Message) -> Asked:
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    target = path.partition(b"?")[0] + (b"?" + query if query else b"")
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    client = scope.get("client")
    return Asked(scope["method"], target.decode("latin-1"), fields, client[0] if client else "")


def _encoded(place: Place) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in place.fields]


async def _deny(place: Place, send: Send) -> None:
    body = place.words.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *_encoded(place),
    ]
    await send({"type": "http.response.start", "status": place.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
