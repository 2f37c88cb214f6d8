"""``/releases`` of the admin port: upload files, publish a release, list releases, roll back."""

from __future__ import annotations

import asyncio
import errno
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from qosweb.releases.blob_store import WrongContent
from qosweb.releases.ledger import TEXT_LEN_MAX
from qosweb.releases.manifest import MANIFEST_LEN_MAX, BadManifest, Manifest, decode_manifest, is_digest
from qosweb.server.releases.release_order import CannotPublish
from qosweb.server.releases.release_service import MissingFiles

if TYPE_CHECKING:
    from qosweb.releases.ledger import Activation
    from qosweb.server.releases.release_service import ReleaseService

UPLOADS_MAX = 16  # at a time
UPLOAD_STALLED_S = 15.0  # an upload of which nothing comes for so long has ended
PIECE = 1 << 20


class Rollback(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /releases/rollback."""

    release: str = ""
    by: str = ""


_decode_rollback = msgspec.json.Decoder(Rollback).decode


def release_routes(service: ReleaseService | None) -> list[web.RouteDef]:
    routes = ReleaseRoutes(service)
    return [
        web.get("/releases", routes.list),
        web.post("/releases", routes.publish),
        web.post("/releases/plan", routes.plan),
        web.post("/releases/rollback", routes.rollback),
        web.put("/releases/blobs/{digest}", routes.upload),
    ]


class ReleaseRoutes:
    def __init__(self, service: ReleaseService | None) -> None:
        self._service_or_none = service
        self._uploads: set[str] = set()  # digests of the files that are being received

    @property
    def _service(self) -> ReleaseService:
        if self._service_or_none is None:
            raise web.HTTPConflict(text="this node does not serve releases: start it with --site and --data-dir DIR\n")
        return self._service_or_none

    async def list(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.json_response(self._service.listed())

    async def plan(self, request: web.Request) -> web.Response:
        service = self._service
        _, manifest = await _read_manifest(request)
        try:
            return web.json_response(await service.plan(manifest))
        except CannotPublish as error:
            raise web.HTTPConflict(text=f"{error}\n") from None

    async def publish(self, request: web.Request) -> web.Response:
        """The body is the manifest; message, by and force are parameters of the query."""
        service, query = self._service, request.query
        message, by = query.get("message", ""), query.get("by", request.remote or "")
        if len(message) > TEXT_LEN_MAX or len(by) > TEXT_LEN_MAX or not (message + by).isprintable():
            raise web.HTTPBadRequest(
                text=f"a message has at most {TEXT_LEN_MAX} characters, and no control characters\n"
            )
        data, manifest = await _read_manifest(request)
        try:
            made = await service.publish(data, manifest, message, by, force="force" in query)
        except MissingFiles as error:
            return web.Response(status=424, text=f"{error}\n")
        except CannotPublish as error:
            return web.Response(status=409, text=f"{error}\n")
        except OSError as error:
            return web.Response(status=507, text=f"{service.disk_problem(error)}\n")
        return web.json_response(self._made(made))

    async def rollback(self, request: web.Request) -> web.Response:
        service = self._service
        try:
            wanted = _decode_rollback(await request.read() or b"{}")
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        try:
            made = await service.rollback(wanted.release, wanted.by or request.remote or "")
        except CannotPublish as error:
            return web.Response(status=409, text=f"{error}\n")
        return web.json_response(self._made(made))

    def _made(self, made: Activation) -> dict[str, object]:
        return {
            "number": made.number,
            "release": made.manifest,
            "message": made.message,
            "nodes": self._service.listed()["nodes"],
        }

    async def upload(self, request: web.Request) -> web.Response:
        """Receive a file from ``offset`` on. The file is stored when its content has the digest of its name."""
        service, digest = self._service, _digest(request)
        blobs = service.blobs
        offset_text = request.query.get("offset", "0")
        if not offset_text.isascii() or not offset_text.isdigit() or len(offset_text) > 18:
            raise web.HTTPBadRequest(text="offset must be a number of bytes\n")
        offset = int(offset_text)
        if request.content_length is None:
            raise web.HTTPLengthRequired(text="an upload needs Content-Length\n")
        size = offset + request.content_length
        if size > service.size_max:
            raise web.HTTPRequestEntityTooLarge(
                service.size_max, size, text=f"a site has at most {service.size_max:,} bytes (--site-max-size)\n"
            )
        if digest in self._uploads or len(self._uploads) >= UPLOADS_MAX:
            raise web.HTTPServiceUnavailable(text="this file, or too many files, are being uploaded\n")
        if blobs.has(digest, size):
            return web.json_response({"complete": True})
        self._uploads.add(digest)
        try:
            await service.in_thread(partial(blobs.begin, digest, offset, request.content_length))
            while piece := await _next_piece(request):
                await service.in_thread(partial(blobs.receive, digest, offset, piece))
                offset += len(piece)
            if offset < size:
                raise web.HTTPBadRequest(text=f"the upload ended after {offset} of {size} bytes\n")
            await service.in_thread(partial(blobs.complete, digest))
        except ValueError as error:
            raise web.HTTPConflict(text=f"{error}\n") from None
        except WrongContent as error:
            raise web.HTTPUnprocessableEntity(text=f"{error}\n") from None
        except OSError as error:
            status = 507 if error.errno in (errno.ENOSPC, errno.EDQUOT) else 500
            return web.Response(status=status, text=f"{service.disk_problem(error)}\n")
        finally:
            self._uploads.discard(digest)
        return web.json_response({"complete": True})


async def _next_piece(request: web.Request) -> bytes:
    """The next bytes of an upload; none at its end. A client that is gone must not hinder the next one."""
    try:
        async with asyncio.timeout(UPLOAD_STALLED_S):
            return await request.content.read(PIECE)
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"nothing of the upload has come for {UPLOAD_STALLED_S:g} s\n") from None


def _digest(request: web.Request) -> str:
    digest = request.match_info["digest"]
    if not is_digest(digest):
        raise web.HTTPBadRequest(text="expected the SHA-256 digest of the file, 64 hexadecimal digits\n")
    return digest


async def _read_manifest(request: web.Request) -> tuple[bytes, Manifest]:
    data = bytearray()
    async for piece in request.content.iter_chunked(PIECE):
        data += piece
        if len(data) > MANIFEST_LEN_MAX:
            raise web.HTTPRequestEntityTooLarge(MANIFEST_LEN_MAX, len(data), text="the manifest is too large\n")
    try:
        return bytes(data), await asyncio.to_thread(decode_manifest, bytes(data))
    except BadManifest as error:
        raise web.HTTPUnprocessableEntity(text=f"{error}\n") from None
