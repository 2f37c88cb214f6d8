"""ASGI middleware, called as an ASGI server calls it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from qosweb.middleware import AsgiAdmission, Doorkeeper
from tests.cluster.runtime.loops import run

pytestmark = pytest.mark.timing

SPEC = "set lifetime = 100ms\nset channel = 64KB in 1s\n</a>.server_resource = 25%\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    assert scope["type"] == "http"
    if scope["path"] == "/fault":
        raise RuntimeError("a fault of the application")
    await asyncio.sleep(0.05)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
    await send({"type": "http.response.body", "body": b"abc", "more_body": True})
    await send({"type": "http.response.body", "body": b"def"})


async def ask(app: AsgiAdmission, path: str) -> tuple[int, dict[bytes, bytes], bytes]:
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"x=1",
        "headers": [(b"host", b"shop.example")], "client": ("192.0.2.1", 5000),
    }  # fmt: skip
    await app(scope, receive, send)
    body = b"".join(message["body"] for message in said[1:])
    return said[0]["status"], dict(said[0]["headers"]), body


def test_admitted_requests_pass_and_denied_ones_get_a_reason() -> None:
    async def story() -> None:
        door = Doorkeeper(SPEC, capacity="128KB/s")
        app = AsgiAdmission(application, door)
        status, headers, body = await ask(app, "/a/page")
        assert (status, body) == (200, b"abcdef")
        assert headers[b"qos-class"] == b"/a"
        assert (headers[b"x-own"], headers[b"qos-decision"]) == (b"1", b"served")
        found = await asyncio.gather(*(ask(app, "/a/page") for _ in range(12)))
        assert {status for status, _, _ in found} == {200, 503}
        denied = next(one for one in found if one[0] == 503)
        assert denied[1][b"retry-after"] == b"1"
        assert denied[1][b"content-length"] == str(len(denied[2])).encode()
        assert denied[2].startswith(b"The request was not served.")
        await door.close()

    run(story)


def test_an_exception_releases_the_channel() -> None:
    async def story() -> None:
        door = Doorkeeper(SPEC, capacity="64KB/s")
        app = AsgiAdmission(application, door)
        for _ in range(3):
            found = await asyncio.gather(ask(app, "/fault"), return_exceptions=True)
            assert isinstance(found[0], RuntimeError)
        assert (await ask(app, "/a/page"))[0] == 200
        await door.close()

    run(story)


def test_the_door_closes_with_the_lifespan() -> None:
    async def story() -> None:
        door = Doorkeeper(SPEC)
        app = AsgiAdmission(application, door)
        events = iter(["lifespan.startup", "lifespan.shutdown"])
        said: list[str] = []

        async def receive() -> dict[str, Any]:
            return {"type": next(events)}

        async def send(message: Any) -> None:
            said.append(message["type"])

        assert (await ask(app, "/a/page"))[0] == 200  # it measures its capacity
        await app({"type": "lifespan"}, receive, send)
        assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert len(asyncio.all_tasks()) == 1  # nothing of it is left

    run(story)
