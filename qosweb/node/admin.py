"""The admin port: how the node is, for people, probes and Prometheus."""

from __future__ import annotations

import dataclasses
import hmac
import json
from typing import TYPE_CHECKING

from aiohttp import web

from qosweb.errors import UsageError
from qosweb.node.metrics import exposition, registry_of
from qosweb.version import VERSION

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from aiohttp.typedefs import Handler

    from qosweb.node.node import Node

TOKEN_LEN_MIN = 16
IDLE_S = 30.0  # a connection without a whole request is closed
CLOSE_S = 1.0


class Admin:
    """Serves ``/livez``, ``/readyz``, ``/metrics`` and ``/status`` on a bound socket."""

    def __init__(self, node: Node, token: Token) -> None:
        self._node = node
        self._token = token
        self._registry = registry_of(node)
        application = web.Application(middlewares=[self._authorise])
        application.add_routes(
            [
                web.get("/", self._index),
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.get("/status", self._status),
            ]
        )
        self._runner = web.AppRunner(
            application, access_log=None, keepalive_timeout=IDLE_S, handle_signals=False, shutdown_timeout=CLOSE_S
        )

    async def start(self, listener: socket.socket) -> None:
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()

    async def close(self) -> None:
        await self._runner.cleanup()

    @web.middleware
    async def _authorise(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._token.value is not None:
            given = request.headers.get("Authorization", "")
            scheme, _, token = given.partition(" ")
            given_token = token.strip().encode("utf-8", "surrogateescape")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given_token, self._token.value.encode()):
                return web.Response(
                    status=401,
                    text="the admin port needs the header 'Authorization: Bearer TOKEN'\n",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        return await handler(request)

    async def _index(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(text="qosweb admin port: /livez /readyz?verbose /metrics /status\n")

    async def _livez(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        checks = {
            "serving": "draining" if self._node.draining else "",
            "root": "" if self._node.store.root.is_there() else f"{self._node.settings.root} is not there",
        }
        missing = [f"{name}: {why}" for name, why in checks.items() if why]
        if "verbose" in request.query:
            text = "".join(f"[{'-' if why else '+'}] {name} {why or 'ok'}\n" for name, why in checks.items())
        else:
            text = "".join(f"{line}\n" for line in missing) or "ok\n"
        return web.Response(status=503 if missing else 200, text=text)

    async def _metrics(self, request: web.Request) -> web.Response:  # noqa: ARG002
        body = exposition(self._registry)
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _status(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.json_response(text=json.dumps(status_of(self._node), indent=2) + "\n")


def status_of(node: Node) -> dict[str, object]:
    policy = node.policy
    return {
        "name": node.name,
        "version": VERSION,
        "since": node.started_at,
        "draining": node.draining,
        "root": str(node.store.root.path),
        "connections": {"open": len(node.connections), **dataclasses.asdict(node.connections.counts)},
        "cache": {
            "pages": len(node.store.resources),
            "bytes": node.store.memory,
            "reads": node.store.reads,
        },
        "access_log": None
        if node.log is None
        else {"lines": node.log.lines_written, "waiting": node.log.lines_waiting, "lost": node.log.lines_lost},
        "policy": {
            "hash": policy.labels.policy,
            "file": str(node.settings.spec or ""),
            "in_force": policy.labels.in_force(node.clock.read()),
        },
        "classes": {
            account.name: {
                "in_service": account.in_service,
                "served": account.by_decision()["served"],
                "denied": account.by_decision()["denied"],
                "failed": account.by_decision()["failed"],
                "bytes": account.bytes_sent,
            }
            for account in policy.accounts
        },
    }


class Token:
    """The bearer token and the file that it comes from; without a file there is none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.value: str | None = None
        self.reload()

    def reload(self) -> None:
        """Take the token as the file has it now; raises UsageError and changes nothing if it has none."""
        self.value = None if self._path is None else _read_token(self._path)


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UsageError(f"--admin-token-file {path}: {reason}") from None
    if len(token) < TOKEN_LEN_MIN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"--admin-token-file {path}: the token must be a line of {TOKEN_LEN_MIN} or more visible ASCII characters"
        )
    return token
