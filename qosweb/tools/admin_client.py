"""Client for the admin port of a running node, with error messages for users.

Every wait and the size of every response are limited. Proxy settings of the environment are ignored: the admin port is
nearly always on this machine.
Neighbours: `status`, `reload`; `qosweb.demo`. Server: `qosweb.server.admin.admin`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, RemoteDisconnected
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode

from qosweb.errors import UsageError
from qosweb.units import Address, parse_address

ANSWER_MAX = 64 << 20
ASK_S = 5.0
PUBLISH_S = 1200.0  # the nodes fetch a release from each other
CHANGE_S = 20.0  # a new policy has to pass the cluster's total order
SHOWN_MAX = 300  # characters of an unexpected response


class AdminError(UsageError):
    """The node does not respond, or not as a node does."""


class RequestRefused(AdminError):
    """The node refused the request; `status` and `text` are from its response."""

    def __init__(self, message: str, status: int, text: str) -> None:
        super().__init__(message)
        self.status = status
        self.text = text


class NotConnected(Exception):
    """Nothing accepts connections at the address; the text says why."""


class AdminClient:
    """Requests to one admin port, each on a connection of its own. All methods raise AdminError."""

    def __init__(self, admin: str, token_file: str | None = None) -> None:
        self.address = admin_address(admin)
        self._headers = {} if token_file is None else {"Authorization": f"Bearer {_read_token(token_file)}"}

    async def status(self) -> dict[str, Any]:
        _, text = await self._ask("GET", "/status")
        found = self._object(text)
        if not isinstance(found.get("classes"), dict) or not isinstance(found.get("name"), str):
            raise self._unexpected("its response is not the status of a node")
        return found

    async def put_policy(self, text: str) -> dict[str, Any]:
        _, answer = await self._ask("PUT", "/policy", text.encode(), CHANGE_S)
        return self._object(answer)

    async def blocks(self) -> dict[str, Any]:
        _, text = await self._ask("GET", "/blocks?all")
        return self._object(text)

    async def change_blocks(self, method: str, change: dict[str, object]) -> dict[str, Any]:
        """PUT blocks a client or network, DELETE unblocks it."""
        _, text = await self._ask(method, "/blocks", json.dumps(change).encode(), CHANGE_S)
        return self._object(text)

    async def releases(self) -> dict[str, Any]:
        _, text = await self._ask("GET", "/releases")
        return self._object(text)

    async def plan_release(self, manifest: bytes) -> dict[str, Any]:
        """Ask which files of a release have to be uploaded, and how it differs from the current one."""
        _, text = await self._ask("POST", "/releases/plan", manifest, PUBLISH_S)
        return self._object(text)

    async def upload_blob(self, digest: str, path: Path, offset: int) -> None:
        """Upload a file from `offset` on, unless it is shorter. Raises UsageError if it cannot be read."""
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                offset = offset if offset <= size else 0
                file.seek(offset)
                headers = {"Content-Length": str(size - offset)}
                await self._ask("PUT", f"/releases/blobs/{digest}?offset={offset}", file, PUBLISH_S, headers)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from None

    async def publish_release(self, manifest: bytes, message: str, by: str, *, force: bool) -> dict[str, Any]:
        query = {"message": message, "by": by, **({"force": "1"} if force else {})}
        _, text = await self._ask("POST", f"/releases?{urlencode(query)}", manifest, PUBLISH_S)
        return self._object(text)

    async def roll_back(self, release: str, by: str) -> dict[str, Any]:
        body = json.dumps({"release": release, "by": by}).encode()
        _, text = await self._ask("POST", "/releases/rollback", body, CHANGE_S)
        return self._object(text)

    async def drain(self) -> None:
        await self._ask("POST", "/drain")

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        within_s: float = ASK_S,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        connection = HTTPConnection(self.address.host, self.address.port, timeout=within_s)
        fields = {**self._headers, **(headers or {})}
        try:
            async with asyncio.timeout(within_s):
                status, raw = await asyncio.to_thread(_exchange, connection, method, path, body, fields)
        except TimeoutError:
            raise AdminError(f"{self.address} did not respond within {within_s:g} s") from None
        except (RemoteDisconnected, ConnectionResetError):
            raise self._unexpected("it closed the connection without a response") from None
        except NotConnected as error:
            raise AdminError(
                f"no node responds at {self.address}: {error}; give the address of its admin port: --admin HOST:PORT"
            ) from None
        except (HTTPException, OSError, ValueError) as error:
            raise self._unexpected(f"its response is not valid HTTP ({type(error).__name__})") from None
        finally:
            _hang_up(connection)  # also ends the thread
        if len(raw) > ANSWER_MAX:
            raise self._unexpected(f"its response has more than {ANSWER_MAX} bytes")
        text = raw.decode("utf-8", "replace")
        if status == 401:
            if "Authorization" in self._headers:
                raise AdminError(f"{self.address}: the node does not accept the token of --token-file")
            raise AdminError(f"{self.address}: the admin port needs a token: --token-file FILE")
        if status in (404, 405, 501) or status < 200 or 300 <= status < 400:
            raise self._unexpected(f"it responds to {method} {path} with {status}")
        if status >= 400:
            raise RequestRefused(f"{self.address}: {_shown(text)}", status, text)
        return status, text

    def _object(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._unexpected("its response is not a JSON object")
        return found

    def _unexpected(self, why: str) -> AdminError:
        return AdminError(f"{self.address} is not the admin port of a qosweb node: {why}")


def _exchange(
    connection: HTTPConnection, method: str, path: str, body: bytes | BinaryIO | None, fields: dict[str, str]
) -> tuple[int, bytes]:
    """Status and body of the response; one byte more of it than ANSWER_MAX at most. Blocks."""
    try:
        connection.connect()
    except TimeoutError:
        raise
    except OSError as error:
        number = error.errno
        raise NotConnected(os.strerror(number) if number and number > 0 else "there is no such host") from None
    with suppress(BrokenPipeError):  # it refuses before it has read the body, and says why
        connection.request(method, path, body, fields)
    with connection.getresponse() as reply:
        return reply.status, reply.read(ANSWER_MAX + 1)


def _hang_up(connection: HTTPConnection) -> None:
    """End the work of another thread with a connection."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def admin_address(text: str) -> Address:
    """Parse ``HOST:PORT`` or ``http://HOST:PORT/``. Raises UsageError."""
    bare = text.strip().removeprefix("http://").rstrip("/")
    try:
        address = parse_address(bare)
    except ValueError as error:
        raise UsageError(f"--admin: {error}") from None
    if address.port == 0:
        raise UsageError(f"--admin {text}: no node listens on port 0; give the port that the node printed at its start")
    return address


def _read_token(name: str) -> str:
    try:
        token = Path(name).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UsageError(f"--token-file {name}: {reason}") from None
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(f"--token-file {name}: it must contain the node's token, one line of visible ASCII characters")
    return token


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_MAX else line[:SHOWN_MAX] + "..."
