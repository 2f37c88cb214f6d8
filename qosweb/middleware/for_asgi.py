"""Admission control as ASGI middleware (https://asgi.readthedocs.io) for HTTP requests. Other protocols pass unchanged.

A denied request gets its response here and never reaches the application. The doorkeeper closes with the application's
lifespan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from qosweb.admission import Permit
from qosweb.middleware.doorkeeper import ERROR, ApplicationRequest, response_body, response_fields

if TYPE_CHECKING:
    from qosweb.admission import Denial
    from qosweb.middleware.doorkeeper import Doorkeeper

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class AsgiAdmission:
    """An ASGI application that admits requests to `app` as `door` decides."""

    def __init__(self, app: Application, door: Doorkeeper) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif scope["type"] == "http":
            request = _request(scope)
            decided = await self._door.enter(request)
            if isinstance(decided, Permit):
                await self._pass(decided, scope, receive, send)
            else:
                await _deny(decided, request, send)
        else:
            await self._app(scope, receive, send)

    async def _pass(self, permit: Permit, scope: Message, receive: Receive, send: Send) -> None:
        size, status = 0, 0

        async def sent(message: Message) -> None:
            nonlocal size, status
            if message["type"] == "http.response.start":
                status = message["status"]
                if permit.cost_header is not None:
                    permit.stated_costs = _values(message, permit.cost_header)
                message = {**message, "headers": [*message.get("headers", ()), *_encoded(permit)]}
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except asyncio.CancelledError:
            permit.leave_server(withdrawn=True)
            raise
        finally:
            permit.leave_server(size, failed=not 0 < status < ERROR)
            permit.close(size)

    async def _live(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            await self._door.close()


def _request(scope: Message) -> ApplicationRequest:
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    target = path.partition(b"?")[0] + (b"?" + query if query else b"")
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    client = scope.get("client")
    return ApplicationRequest(scope["method"], target.decode("latin-1"), fields, client[0] if client else "")


def _values(message: Message, name: str) -> list[str]:
    wanted = name.lower().encode("latin-1")
    return [value.decode("latin-1") for field, value in message.get("headers", ()) if field.lower() == wanted]


def _encoded(decided: Permit | Denial) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in response_fields(decided)]


async def _deny(denial: Denial, request: ApplicationRequest, send: Send) -> None:
    media_type, body = response_body(denial, request)
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        *_encoded(denial),
    ]
    await send({"type": "http.response.start", "status": denial.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
