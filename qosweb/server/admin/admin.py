"""Admin HTTP server: health probes, metrics, status, dashboard, policy changes and draining."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from qosweb.errors import UsageError
from qosweb.server.admin.block_routes import routes_of
from qosweb.server.admin.bounded_connections import ADMIN_CONNECTIONS_MAX, BoundedConnections
from qosweb.server.admin.browser_guard import BrowserGuard
from qosweb.server.admin.dashboard import dashboard
from qosweb.server.admin.metrics import exposition, registry_of
from qosweb.server.admin.release_routes import release_routes
from qosweb.server.admin.status import missing_of, queue_of, status_of
from qosweb.server.private_files import read_private_file
from qosweb.webqos import compile_policy
from qosweb.webqos.loader import BYTES_MAX

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from aiohttp.typedefs import Handler

    from qosweb.server.process.node import Node

LOGGER = "qosweb.admin"  # what the server of the admin port logs
TOKEN_LEN_MIN = 16
IDLE_S = 30.0  # a connection without a complete request is closed
CLOSE_S = 1.0
PUT_S = 10.0  # how long a new policy may take to take effect
NUMBER_LEN_MAX = 15  # digits
ROUTES = """\
qosweb admin port
  GET  /                  dashboard (for browsers), or this text
  GET  /livez             liveness probe
  GET  /readyz?verbose    readiness probe, with each check
  GET  /metrics           metrics for Prometheus
  GET  /status            status of this node and its cluster
  GET  /queue             waiting requests by class
  GET  /history?after=N   classes during the last ten minutes, and events
  GET  /policy            specification in force
  PUT  /policy            change the specification on all nodes
  GET  /blocks            blocked clients and networks
  PUT  /blocks            block a client or network at all nodes
  DELETE /blocks          unblock it
  GET  /releases          releases of the site, with --site
  POST /releases          publish a release whose files were uploaded
  POST /releases/plan     which files of a release have to be uploaded
  POST /releases/rollback return to an earlier release
  PUT  /releases/blobs/{digest}   upload a file, or the rest of it (?offset=N)
  POST /drain             drain and stop, like SIGTERM
"""


class Admin:
    """Serves ROUTES on a bound socket. ``drain`` starts the same shutdown as SIGTERM."""

    def __init__(self, node: Node, token: Token, drain: Callable[[], None]) -> None:
        self._node = node
        self._start_drain = drain
        self._token = token
        settings = node.settings
        own = () if settings.admin is None else (settings.admin.host,)
        self._guard = BrowserGuard((*own, *settings.admin_host))
        self._registry = registry_of(node)
        application = web.Application(middlewares=[self._authorise, self._count], client_max_size=BYTES_MAX)
        application.add_routes(
            [
                web.get("/", self._index),
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.get("/status", self._status),
                web.get("/queue", self._queue),
                web.get("/history", self._history),
                web.get("/policy", self._policy),
                web.put("/policy", self._put_policy),
                web.post("/drain", self._drain),
                *routes_of(node.blocking),
                *release_routes(node.releases),
            ]
        )
        logger = logging.getLogger(LOGGER)
        logger.addFilter(_is_no_bad_request)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=IDLE_S,
            handle_signals=False,
            shutdown_timeout=CLOSE_S,
            logger=logger,
        )
        self._connections: BoundedConnections | None = None
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        await self._runner.setup()
        assert self._runner.server is not None
        self._connections = BoundedConnections(self._runner.server)
        self._server = await asyncio.get_running_loop().create_server(
            self._connections, sock=listener, backlog=ADMIN_CONNECTIONS_MAX
        )

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        assert self._connections is not None
        with self._connections.in_use(request.protocol):
            return await handler(request)

    @web.middleware
    async def _authorise(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if (refusal := self._guard.refusal(request.method, request.headers)) is not None:
            status, text = refusal
            return web.Response(status=status, text=text)
        if self._token.value is not None:
            given = request.headers.get("Authorization", "")
            scheme, _, token = given.partition(" ")
            given_token = token.strip().encode("utf-8", "surrogateescape")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given_token, self._token.value.encode()):
                if request.path == "/" and _wants_page(request):
                    return _page(401)  # the page asks for the token
                return web.Response(
                    status=401,
                    text="the admin port requires the header 'Authorization: Bearer TOKEN'\n",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        return await handler(request)

    async def _index(self, request: web.Request) -> web.Response:
        return _page(200) if _wants_page(request) else web.Response(text=ROUTES, headers={"Vary": "Accept"})

    async def _livez(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        root = self._node.store.root
        checks = {
            "serving": "draining" if self._node.draining else "",
            "cluster": missing_of(self._node),
            "root": "" if root is None or root.is_there() else f"{self._node.settings.root} is not there",
        }
        if self._node.upstreams.servers:
            checks["upstream"] = self._node.upstreams.missing
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

    async def _queue(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.json_response(text=json.dumps(queue_of(self._node), indent=2) + "\n")

    async def _history(self, request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        if not after.isascii() or not after.isdigit() or len(after) > NUMBER_LEN_MAX:
            return web.Response(
                status=400, text=f"after={after[:20]}: give the number of a sample, such as after=120\n"
            )
        found = {**self._node.live.history.since(int(after)), "events": self._node.recorder.events.listed()}
        return web.json_response(text=json.dumps(found) + "\n")

    async def _policy(self, request: web.Request) -> web.Response:  # noqa: ARG002
        classifier = self._node.admission.accounts.classifier
        return web.Response(text=classifier.text, headers={"ETag": f'"{classifier.policy_hash}"'})

    async def _put_policy(self, request: web.Request) -> web.Response:
        """Change the specification: compile it here, then put it in force at one position of the cluster's order."""
        try:
            text = (await request.read()).decode()
        except UnicodeDecodeError:
            return web.Response(status=400, text="the specification is not UTF-8\n")
        policy = await asyncio.to_thread(compile_policy, text)
        diagnostics = policy.render_diagnostics()
        if policy.has_errors:
            return web.Response(status=422, text=diagnostics)
        try:
            index = await self._node.policies.put(policy, PUT_S)
        except UsageError as error:
            return web.Response(status=409, text=f"{error}\n")
        except TimeoutError:
            return web.Response(status=504, text="the policy is not in force yet; it may still take effect\n")
        in_force = self._node.admission.accounts.classifier.policy_hash
        return web.json_response({"policy": in_force, "index": index, "warnings": diagnostics})

    async def _drain(self, request: web.Request) -> web.Response:  # noqa: ARG002
        self._start_drain()
        return web.Response(status=202, text="draining\n")


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    """Whether ``record`` reports a fault of this node. A malformed request is not: its client gets 400."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _wants_page(request: web.Request) -> bool:
    return "text/html" in request.headers.get("Accept", "")


def _page(status: int) -> web.Response:
    text, fields = dashboard()
    if status == 401:
        fields = {**fields, "WWW-Authenticate": "Bearer"}
    return web.Response(status=status, text=text, content_type="text/html", headers=fields)


class Token:
    """The bearer token of the admin port, read from a file. Without a file no token is required."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.value = self.read_again()

    def read_again(self) -> str | None:
        """The token that is in the file now. Raises UsageError if the file holds no valid token."""
        return None if self._path is None else _read_token(self._path)


def _read_token(path: Path) -> str:
    try:
        token = read_private_file("--admin-token-file", path).decode().strip()
    except UnicodeDecodeError:
        raise UsageError(f"--admin-token-file {path}: not a text file") from None
    if len(token) < TOKEN_LEN_MIN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"--admin-token-file {path}: expected one line of {TOKEN_LEN_MIN} or more visible ASCII characters"
        )
    return token
